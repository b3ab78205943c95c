"""The options of ``esipp run``, for its own command line and pytest's alike, and the settings that they say."""

import os
import secrets
from typing import Any

from esipp.app.customisation_options import add_deploying_options, read_customisation, read_image
from esipp.app.in_cluster import credentials as in_pod
from esipp.app.in_cluster.command import add_in_cluster
from esipp.base.client_places import AUTO, read_places
from esipp.base.errors import PreflightError
from esipp.base.implementation import FIELDS, read_implementation
from esipp.checks.catalog import all_checks
from esipp.checks.check import Binding
from esipp.checks.exclusions import add_exclude, read_exclusions
from esipp.checks.required_features import add_require, counts, read_required
from esipp.ledger.run import DEFAULT_MOVES, DEFAULT_NODES, DEFAULT_SAMPLES, Settings
from esipp.loadbalancers.profiles.loading import provider
from esipp.loadbalancers.provider_annotations import provided
from esipp.testbed.sampling import MOST_NODES
from esipp.testbed.source_ranges import read as read_ranges

MOST_BOUND = 3600.0
"""Seconds of ``--bound`` at most: with 30 moves of that length a run would take days."""


def add_run_options(group: Any) -> None:
    """The options of a run, for argparse and pytest alike."""
    add = getattr(group, "addoption", None) or group.add_argument
    add("--context", default=None, metavar="NAME", help="kubeconfig context of the cluster; required, no default")
    add("--kubeconfig", default=None, metavar="FILE", help="kubeconfig file (default: $KUBECONFIG, ~/.kube/config)")
    add_in_cluster(add)
    add(
        "--image",
        default=os.environ.get("ESIPP_IMAGE", ""),
        metavar="REFERENCE",
        help="the echo image as the nodes know it (default: $ESIPP_IMAGE)",
    )
    add("--lane", default="run", metavar="NAME", help="name of this set-up; it is part of the run folder's name")
    add("--out", default=None, metavar="DIR", help="the run's folder (default: runs/<time>-<lane>)")
    add(
        "--junit",
        default=None,
        metavar="FILE",
        help="JUnit XML here too, beside the run's folder: there, and red, whatever happens, also without a cluster",
    )
    add(
        "--outside",
        action="append",
        default=None,
        metavar="WHERE",
        help="where clients outside the cluster stand, in order, with commas or repeated: machine (this one), "
        "ssh:[USER@]HOST[:PORT], docker:NETWORK; or auto (containers beside kind's nodes, the default), or none",
    )
    add(
        "--provider",
        default="",
        metavar="NAME|FILE.toml",
        help="which load balancer the cluster has, as docs/load-balancers.md names them, or a profile of your own: how "
        "long to wait for it, and what to expect (default: what is found)",
    )
    add_bound(add)
    add(
        "--without",
        action="append",
        default=[],
        metavar="FEATURE",
        help="take a feature as missing, its checks are unsupported (load-balancer, family.ipv6 ...); repeatable",
    )
    add_exclude(add)
    add(
        "--samples", type=int, default=DEFAULT_SAMPLES, metavar="N", help="connections a path gets in the judged window"
    )
    add(
        "--moves",
        type=int,
        default=DEFAULT_MOVES,
        metavar="N",
        help=f"moves up, and as many down, that each load balancer has to follow (default: {DEFAULT_MOVES})",
    )
    add(
        "--seed",
        type=int,
        default=None,
        metavar="N",
        help="of everything that is chosen at random: which pod moves when, which nodes carry an agent (default: a new "
        "one, told in the report)",
    )
    add(
        "--sample-nodes",
        type=int,
        default=DEFAULT_NODES,
        metavar="N",
        help="nodes that carry an agent, at most: those that play a part, and others at random by --seed; the report "
        f"names them (default: {DEFAULT_NODES})",
    )
    add_parallel(add)
    add(
        "--allow-disruptive",
        action="store_true",
        help="also what others on the cluster would notice: nodes are cordoned, drained of our pods and excluded from "
        "load balancers for a while, kube-proxy, speakers and kubelets restarted, the API server is away for 30 s",
    )
    add(
        "--redact-cloud-ids",
        action="store_true",
        help="put pseudonyms for what names a cloud's account: provider, project and subscription ids, nodes' names, "
        "hosts of load balancers and API server, hosts of --outside ssh: with their public addresses; so the report "
        "may be published. Other IP addresses are kept, those of this machine too: they are the evidence",
    )
    add(
        "--source-ranges",
        default="auto",
        metavar="WHO",
        help="who may use the VIPs, by loadBalancerSourceRanges: clients (the run's own), off (everybody), or CIDRs "
        "with commas between them (default: auto, which is clients, but off where nodes are kind's)",
    )
    add(
        "--implementation",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"what is tested, for the conformance report: {', '.join(FIELDS)}; repeatable",
    )
    add(
        "--fail-on",
        choices=[each.value for each in Binding],
        default=Binding.EXTENDED.value,
        help="whose failures make the run fail: core checks, or extended ones, too (default: extended)",
    )
    add(
        "--accept-known-defects",
        action="store_true",
        help="end with exit code 0 where core checks differ only by known defects or findings; the report names them",
    )
    add_require(add)
    add_deploying_options(add)


def add_bound(add: Any) -> None:
    """The option that says how fast the cluster's own load balancer has to follow."""
    add(
        "--bound",
        type=float,
        default=None,
        metavar="SECONDS",
        help="how long the cluster's own load balancer may go on losing requests after a node's health check says 503: "
        "its checks are judged by it, and waits grow with it (default: (N+1) x period of --provider's or the detected "
        "profile)",
    )


def add_parallel(add: Any) -> None:
    """How many load balancers stand at the same time: an option of ``esipp run`` and ``esipp plan`` alike."""
    add(
        "--parallel-load-balancers",
        type=int,
        default=None,
        metavar="N",
        help="make so many Services for the cluster's own load balancer at the same time, at most, and ask in batches "
        "(default: all at once; a ResourceQuota that refuses some makes batches by itself)",
    )


def check_numbers(options: Any) -> None:
    """What ``esipp run`` and ``esipp plan`` bound alike.

    Raises:
        PreflightError: a number is out of range.
    """
    bounds = (("samples", 1, 10_000), ("moves", 1, 1000), ("sample-nodes", 3, MOST_NODES))
    for name, least, most in (*bounds, ("parallel-load-balancers", 1, 1000)):
        given = getattr(options, name.replace("-", "_"))
        if given is not None and not least <= given <= most:
            raise PreflightError(f"--{name} {given} is out of range.", f"{least} to {most}.")
    if options.bound is not None and not 0.0 < options.bound <= MOST_BOUND:
        raise PreflightError(f"--bound {options.bound:g} is out of range.", f"more than 0, at most {MOST_BOUND:.0f} s.")


def settings_of(options: Any) -> Settings:
    """The settings that parsed options say.

    Raises:
        PreflightError: a value makes no sense.
    """
    context, kubeconfig = in_pod.named(options.context, options.kubeconfig, options.in_cluster)
    check_numbers(options)
    if not options.lane.replace("-", "").replace(".", "").isalnum():
        raise PreflightError(f"--lane '{options.lane}' cannot be part of a folder's name.", "letters, digits, - and .")
    read_ranges(options.source_ranges)
    outside = ",".join(options.outside or [AUTO])
    read_places(outside)
    told = provider(options.provider) if options.provider else None
    return Settings(
        context=context,
        kubeconfig=kubeconfig,
        in_cluster=options.in_cluster,
        exclude=read_exclusions(options.exclude, {check.id for check in all_checks()}) if options.exclude else (),
        image=read_image(options),
        lane=options.lane,
        out=options.out,
        outside=outside,
        provider=options.provider,
        without=tuple(options.without),
        samples=options.samples,
        fail_on=Binding(options.fail_on),
        accept_known_defects=options.accept_known_defects,
        require=read_required(options.require, list(counts(all_checks()))) if options.require else (),
        moves=options.moves,
        allow_disruptive=options.allow_disruptive,
        redact_cloud_ids=options.redact_cloud_ids,
        implementation=read_implementation(options.implementation),
        source_ranges=options.source_ranges,
        customisation=provided(read_customisation(options), told, internal=options.internal),
        sample_nodes=options.sample_nodes,
        parallel_load_balancers=options.parallel_load_balancers,
        seed=secrets.randbelow(10**6) if options.seed is None else options.seed,
        bound=options.bound,
    )
