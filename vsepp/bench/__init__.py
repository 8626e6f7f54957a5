"""Measured rates: how fast a device does what a plan asks of it."""
