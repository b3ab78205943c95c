"""``esipp load-balancers``: prints load balancer profiles, for a terminal or as docs/load-balancers.md."""

import argparse
from typing import Any

from esipp.app.exit_codes import OF_LOAD_BALANCERS
from esipp.base.errors import ExitCode
from esipp.loadbalancers.profiles.listing import as_text, in_full
from esipp.loadbalancers.profiles.loading import all_profiles, provider
from esipp.loadbalancers.profiles.page import render


def add_load_balancers(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "load-balancers",
        help="show the profiles of load balancers, in clouds and on bare metal; needs no cluster",
        epilog=OF_LOAD_BALANCERS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME|FILE.toml", help="show these profiles in full (default: one line each)"
    )
    parser.add_argument(
        "--format",
        choices=["text", "markdown"],
        default="text",
        help="output format (markdown: docs/load-balancers.md; default: text)",
    )
    parser.set_defaults(command=_load_balancers)


def _load_balancers(options: argparse.Namespace) -> int:
    chosen = [provider(name) for name in options.names]
    if options.format == "markdown":
        print(render(chosen or all_profiles()), end="")
        return int(ExitCode.CONFORMANT)
    lines = [line for each in chosen for line in (*in_full(each), "")] if chosen else [*as_text(all_profiles())]
    print("\n".join(lines).rstrip("\n"))
    return int(ExitCode.CONFORMANT)
