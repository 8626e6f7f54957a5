"""The machine: GPUs and who has them, progress and logs, processes that work together."""
