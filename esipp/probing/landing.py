"""What a client outside runs first, on this machine or on another host: it tells what is there, then runs the prober.

It is sent as text and never written to a disk, so that nothing is left behind however it ends: at the end of its
standard input the prober ends, and with it this process. Pythons that are too old for the prober can read this file, so
that they are told in a sentence and not by a traceback.
"""

import base64
import json
import platform
import socket
import sys
import zlib
from typing import Any

LEAST = (3, 10)  # the prober's: os.eventfd


def raw_sockets() -> bool:
    """Whether SCTP can be asked from here, which takes root or CAP_NET_RAW."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, 132).close()
    except (OSError, AttributeError):
        return False
    return True


def land(read: Any) -> None:
    """Tell what is here, take the prober from the next line, and become it."""
    fit = sys.version_info >= LEAST and sys.platform.startswith("linux")
    told = {"event": "landed", "python": platform.python_version(), "platform": sys.platform, "fit": fit}
    told["raw"] = fit and raw_sockets()
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    if not fit:
        sys.exit(3)
    source = zlib.decompress(base64.b64decode(read()))
    exec(compile(source, "prober.py", "exec"), {"__name__": "__main__"})  # noqa: S102 - it is what we sent
