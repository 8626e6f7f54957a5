"""`python -m vsepp.apps.cli`, where the package is not installed."""

import sys

from vsepp.apps.cli import main

sys.exit(main())
