"""Bootstrap of an outside client on this machine or another host: describes the place, then runs the prober.

esipp sends it as text and never writes it to a disk, so that nothing remains, however it ends: at the end of its
standard input the prober ends, and with it this process. Python versions that are too old for the prober can run this
file, so that the user gets a sentence and not a traceback.
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
    """Whether this process can open raw sockets for SCTP, which needs root or CAP_NET_RAW."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, 132).close()
    except (OSError, AttributeError):
        return False
    return True


def main(read: Any) -> None:
    """Describe this place, read the prober from the next line, and run it."""
    fit = sys.version_info >= LEAST and sys.platform.startswith("linux")
    event = {"event": "host", "python": platform.python_version(), "platform": sys.platform, "fit": fit}
    event["raw"] = fit and raw_sockets()
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()
    if not fit:
        sys.exit(3)
    source = zlib.decompress(base64.b64decode(read()))
    exec(compile(source, "prober.py", "exec"), {"__name__": "__main__"})  # noqa: S102 - esipp sent this source
