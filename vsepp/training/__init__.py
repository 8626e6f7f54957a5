"""Training of a run: batches, step, schedule, checkpoint, loop."""
