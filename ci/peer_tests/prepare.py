"""Preparation of a comparison: build upstream's tests and load their image into the nodes."""

import sys

from ci.access import ClusterAccess
from ci.hermetic.store import Store
from ci.peer_tests.build import load_image, upstream
from ci.places import places
from ci.step import Journal, exit_code_of


def main() -> int:
    """Build and load missing artifacts."""
    where = places()
    there, store, journal = ClusterAccess.kept(where), Store(where), Journal(where.logs)
    load_image(upstream(there.kubernetes, store, journal), there, store, journal)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
