"""The machine: device, threads, sharing of GPUs, placement of data, atomic files, processes, progress and logs."""
