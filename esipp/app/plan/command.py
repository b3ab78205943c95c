"""``esipp plan``: its options and its output."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esipp.app.exit_codes import OF_LOAD_BALANCERS
from esipp.app.options import add_bound, add_depth, add_parallel, check_numbers, depth_of
from esipp.app.selection import PROFILES, STANDARD, add_checks, add_narrowing, chosen, narrowed
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.check import Check
from esipp.checks.model import Family
from esipp.ledger.run import DEFAULT_NODES
from esipp.loadbalancers.profiles.loading import provider
from esipp.report.rendering import FORMATS, render

if TYPE_CHECKING:
    from esipp.app.plan.assumed_cluster import Asked
    from esipp.app.plan.plan import ProfileCost

SAME = "same as for 'esipp run'"


def add_plan(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "plan",
        help="show what a run with a given load balancer would check and create, and how long; needs no cluster",
        epilog=OF_LOAD_BALANCERS,
    )
    add = parser.add_argument
    add_checks(parser)
    add_narrowing(add)
    add(
        "--provider",
        required=True,
        metavar="NAME|FILE.toml",
        help="profile of the load balancer; 'esipp load-balancers' lists them",
    )
    add_bound(add)
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
    add_depth(add)
    add("--sample-nodes", type=int, default=DEFAULT_NODES, metavar="N", help=SAME)
    add_parallel(add)
    add("--seed", type=int, default=None, metavar="N", help=SAME)
    add("--internal", action="store_true", help=SAME)
    add("--allow-disruptive", action="store_true", help=SAME)
    add("--long", action="store_true", help=SAME)
    add("--config", default=None, metavar="FILE", help="file with options (default: esipp.yaml, where it exists)")
    add("--format", choices=FORMATS, default="text", help="output format (default: text)")
    parser.set_defaults(command=_plan)


def _plan(options: argparse.Namespace) -> int:
    from esipp.app.plan.assumed_cluster import Asked
    from esipp.app.plan.document import as_json, document
    from esipp.app.plan.plan import plan

    named = chosen(options, STANDARD)
    checks = narrowed(named, options)
    if not checks:
        raise PreflightError("No check is left.", "'esipp list' lists all checks.")
    check_numbers(options)
    depth, profile = depth_of(options), PROFILES[options.profile]
    asked = Asked(
        provider(options.provider),
        checks,
        options.nodes,
        tuple(Family(each) for each in dict.fromkeys(options.family)),
        options.kubernetes,
        tuple(options.without),
        options.allow_disruptive or profile.disruptive,
        depth.samples,
        depth.moves,
        options.sample_nodes,
        options.seed,
        options.internal,
        options.bound,
        options.parallel_load_balancers,
        options.long,
    )
    made = replace(plan(asked), profiles=tuple(_profiles(asked, named)))
    print(json.dumps(as_json(made)) if options.format == "json" else render(document(made), options.format).rstrip())
    return int(ExitCode.CONFORMANT)


def _profiles(asked: "Asked", named: Sequence[Check]) -> "Iterator[ProfileCost]":
    """What the same selection costs with each profile."""
    from esipp.app.plan.plan import ProfileCost, plan

    for profile in PROFILES.values():
        checks = [check for check in named if profile.admits(check)]
        if checks:
            samples, moves, disruptive = profile.samples, profile.moves, profile.disruptive
            made = plan(replace(asked, checks=checks, samples=samples, moves=moves, disruptive=disruptive))
            balancers = made.made.balancers
            yield ProfileCost(
                profile.name, len(made.asked), profile.samples, profile.moves, balancers, round(made.seconds)
            )
