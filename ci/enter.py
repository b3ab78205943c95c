"""`ci/enter COMMAND…`: run a command in the network namespace of the kept cluster."""

import os
import sys
from typing import NoReturn

from ci import account
from ci.access import ClusterAccess
from ci.hermetic.engine import Engine
from ci.places import places
from ci.step import SetupError, exit_code_of


def main(command: list[str]) -> NoReturn:
    """Become the command, where the cluster is reachable."""
    if not command:
        raise SetupError("ci/enter needs a command.", "for example: ci/enter kubectl get nodes")
    there = ClusterAccess.kept(places())
    if there.path == "hermetic" and not Engine(places()).lives():
        raise SetupError("The kept cluster is gone: its engine does not run.", "ci/conformance --up creates one.")
    environment = account.environment(there, command)
    os.environ["PATH"] = environment["PATH"]  # execvpe looks the program up by our own
    try:
        os.execvpe((there.prefix + command)[0], there.prefix + command, environment)  # noqa: S606 - an argv list, no shell
    except OSError as error:
        raise SetupError(f"Cannot run '{command[0]}': {error.strerror}.", "check PATH.") from error


if __name__ == "__main__":
    sys.exit(exit_code_of(lambda: main(sys.argv[1:])))
