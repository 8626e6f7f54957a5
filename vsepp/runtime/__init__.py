"""The machine: device and threads, GPUs and who has them, where data lie, whole files, processes, progress and logs."""
