"""``esipp plan``: its options and its output."""

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

from esipp.app.exit_codes import OF_LOAD_BALANCERS
from esipp.app.options import add_bound, add_parallel, check_numbers
from esipp.app.plan.assumed_cluster import Asked
from esipp.app.plan.document import as_json, document
from esipp.app.plan.plan import plan
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.check import Check
from esipp.checks.model import Family
from esipp.ledger.run import DEFAULT_MOVES, DEFAULT_NODES, DEFAULT_SAMPLES
from esipp.loadbalancers.profiles.loading import provider
from esipp.report.rendering import FORMATS, render

SAME = "same as for 'esipp run'"

Select = Callable[[Sequence[str]], list[Check]]


def add_plan(commands: Any, select: Select, suites: Sequence[str]) -> None:
    """Add the command to the parser.

    Args:
        commands: the subcommands of the parser.
        select: returns the checks that match patterns.
        suites: the names of all suites.
    """
    parser = commands.add_parser(
        "plan",
        help="show what a run would check, create and take with a given load balancer; needs no cluster",
        epilog=OF_LOAD_BALANCERS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("checks", nargs="*", metavar="CHECK", help="id of a check, or a part of one (default: all checks)")
    add(
        "--provider",
        required=True,
        metavar="NAME|FILE.toml",
        help="profile of the load balancer; 'esipp load-balancers' lists them",
    )
    add_bound(add)
    add("--suite", action="append", default=[], choices=suites, help="use only this suite; repeatable")
    add("--nodes", type=int, default=3, metavar="N", help="number of nodes that can run pods (default: 3)")
    add(
        "--family",
        action="append",
        default=[],
        choices=[family.value for family in Family],
        help="address family of nodes and Services; repeatable (default: all that the load balancer supports)",
    )
    add(
        "--kubernetes",
        default="",
        metavar="VERSION",
        help="version of the API server (default: one that has every feature)",
    )
    add("--without", action="append", default=[], metavar="FEATURE", help="treat a feature as missing; repeatable")
    add("--samples", type=int, default=DEFAULT_SAMPLES, metavar="N", help=SAME)
    add("--moves", type=int, default=DEFAULT_MOVES, metavar="N", help=SAME)
    add("--sample-nodes", type=int, default=DEFAULT_NODES, metavar="N", help=SAME)
    add_parallel(add)
    add("--seed", type=int, default=None, metavar="N", help=SAME)
    add("--internal", action="store_true", help=SAME)
    add("--allow-disruptive", action="store_true", help=SAME)
    add("--config", default=None, metavar="FILE", help="file with options (default: esipp.yaml, where it exists)")
    add("--format", choices=FORMATS, default="text", help="output format (default: text)")
    parser.set_defaults(command=lambda options: _plan(options, select))


def _plan(options: argparse.Namespace, select: Select) -> int:
    checks = [check for check in select(options.checks) if not options.suite or check.suite in options.suite]
    if not checks:
        raise PreflightError("None of these checks belongs to these suites.", "'esipp list' lists all checks.")
    check_numbers(options)
    made = plan(
        Asked(
            provider(options.provider),
            checks,
            options.nodes,
            tuple(Family(each) for each in dict.fromkeys(options.family)),
            options.kubernetes,
            tuple(options.without),
            options.allow_disruptive,
            options.samples,
            options.moves,
            options.sample_nodes,
            options.seed,
            options.internal,
            options.bound,
            options.parallel_load_balancers,
        )
    )
    print(json.dumps(as_json(made)) if options.format == "json" else render(document(made), options.format).rstrip())
    return int(ExitCode.CONFORMANT)
