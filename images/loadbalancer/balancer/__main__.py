"""The entry point: ``python3 -B -m balancer OPTION…``."""

import sys

from .command import main

sys.exit(main(sys.argv[1:]))
