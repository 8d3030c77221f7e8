"""`python -m trueup`, for an interpreter whose scripts are not on PATH."""

import sys

from trueup.cli import main

sys.exit(main())
