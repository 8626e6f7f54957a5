"""Of every test and every process that a test starts: one thread for tensors, and modules of `support` to import."""

import os
from pathlib import Path

# Small work is slower on more threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

_PLACES = (str(Path(__file__).parent / "support"), os.environ.get("PYTHONPATH"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PLACES))
