"""``python -m esipp``."""

import sys

from esipp.cli import main

sys.exit(main())
