"""One thread for tensors in every test and every process that a test starts: small work is slower on more."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
