"""The generator of full-size raw data lies beside the rehearsals that it is for."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "rehearsal"))
