"""`python -m vsepp.cli`, where the package is not installed."""

import sys

from vsepp.cli import main

sys.exit(main())
