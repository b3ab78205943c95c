"""``python -m esipp``."""

import sys

from esipp.app.cli import main

sys.exit(main())
