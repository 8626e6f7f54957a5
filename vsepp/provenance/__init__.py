"""Digests and manifests; artefacts that do not belong together are refused."""
