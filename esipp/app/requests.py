"""Options for requests to the API server, as kubectl has them: ``--as`` and ``--request-timeout``."""

from functools import partial
from typing import Any

from esipp.app.duration import read_duration
from esipp.ledger.run import REQUEST_TIMEOUT

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
