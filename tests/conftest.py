"""Of every test and every process that a test starts: one thread for tensors, and modules of `support` to import."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

# A machine that is busy with other work is slow, and nothing else is wrong with it.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Small work is slower on more threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

_PLACES = (str(Path(__file__).parent / "support"), os.environ.get("PYTHONPATH"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PLACES))
