"""Options for requests to the API server, as kubectl has them: ``--as`` and ``--request-timeout``; durations."""

import re
from functools import partial
from typing import Any

from esipp.base.errors import PreflightError
from esipp.ledger.run import REQUEST_TIMEOUT


def read_duration(option: str, text: str) -> float:
    """The seconds of a duration such as ``10m``, ``90s`` or ``1h30m``.

    Args:
        option: whose value it is.
        text: the value.

    Raises:
        PreflightError: it is none.
    """
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text.strip())
    parts = found.groups() if found and text.strip() else ()
    seconds = sum(int(part) * size for part, size in zip(parts, (3600, 60, 1), strict=False) if part)
    if not seconds:
        raise PreflightError(f"{option} '{text}' is no time.", "use 10m, 90s or 1h30m.")
    return float(seconds)


KUBECONFIG_HELP = "kubeconfig file (default: $KUBECONFIG, ~/.kube/config)"


def add_requests(add: Any) -> None:
    """Add the options to an argparse parser or a pytest option group."""
    add(
        "--as",
        dest="as_user",
        default="",
        metavar="USER",
        help="user to impersonate, as with kubectl (default: as the kubeconfig says)",
    )
    add(
        "--request-timeout",
        type=partial(read_duration, "--request-timeout"),
        default=REQUEST_TIMEOUT,
        metavar="TIME",
        help=f"time limit of one request to the API server, such as 1m (default: {REQUEST_TIMEOUT:g}s)",
    )
