"""The options of ``esipp run``, shared with pytest, and the settings they result in."""

import os
import secrets
from functools import partial
from pathlib import Path
from typing import Any

from esipp.app.customisation_options import add_deploying_options, read_customisation, read_image
from esipp.app.depth import Depth
from esipp.app.in_cluster import credentials as in_pod
from esipp.app.in_cluster.command import add_in_cluster
from esipp.app.report import BASELINE
from esipp.app.requests import KUBECONFIG_HELP, add_requests, read_duration
from esipp.app.selection import PROFILES, add_narrowing
from esipp.base.client_places import AUTO, read_places
from esipp.base.errors import PreflightError
from esipp.base.implementation import FIELDS, read_implementation
from esipp.checks.catalog import all_checks
from esipp.checks.check import Binding
from esipp.checks.exclusions import add_exclude, read_exclusions
from esipp.checks.required_features import add_require, counts, read_required
from esipp.checks.waivers import read_waivers
from esipp.ledger.run import DEFAULT_MOVES, DEFAULT_NODES, DEFAULT_SAMPLES, Settings
from esipp.loadbalancers.profiles.loading import provider
from esipp.loadbalancers.provider_annotations import provided
from esipp.testbed.sampling import MOST_NODES
from esipp.testbed.source_ranges import read as read_ranges

MOST_BOUND = 3600.0
"""The largest ``--bound``, in seconds: with 30 endpoint changes of that length a run would take days."""

MOST_FACTOR = 20.0
"""The largest ``--timeout-factor``: pods that need 40 minutes to be ready."""


def add_run_options(group: Any) -> None:
    """Add the options of a run to an argparse parser or a pytest option group."""
    add = getattr(group, "addoption", None) or group.add_argument
    add("--context", default=None, metavar="NAME", help="kubeconfig context of the cluster; required, no default")
    add("--kubeconfig", default=None, metavar="FILE", help=KUBECONFIG_HELP)
    add_requests(add)
    add_in_cluster(add)
    add(
        "--image",
        default=os.environ.get("ESIPP_IMAGE", ""),
        metavar="REFERENCE",
        help="image of the echo server, as nodes pull it (default: $ESIPP_IMAGE)",
    )
    add("--lane", default="run", metavar="NAME", help="name of this environment, used in the run folder's name")
    add("--out", default=None, metavar="DIR", help="folder of the run (default: runs/<time>-<lane>)")
    add(
        "--junit",
        default=None,
        metavar="FILE",
        help="also write JUnit XML to FILE; it exists and reports a failure until the run completes, even if there is "
        "no cluster",
    )
    add("--baseline", type=Path, default=None, metavar="RUN", help=BASELINE)
    add(
        "--outside",
        action="append",
        default=None,
        metavar="WHERE",
        help="where the clients outside the cluster run, in order; comma-separated or repeated: machine (this one), "
        "ssh:[USER@]HOST[:PORT], docker:NETWORK; or auto (containers on the network of kind's nodes; default), or "
        "none; machine=ADDRESS and ssh:HOST=ADDRESS give the address by which the cluster sees that client, if no node "
        "can show it",
    )
    add(
        "--provider",
        default="",
        metavar="NAME|FILE.toml",
        help="profile of the cluster's load balancer: a name from docs/load-balancers.md, or your own TOML file; it "
        "sets timeouts and expectations (default: detected)",
    )
    add_bound(add)
    add(
        "--timeout-factor",
        type=float,
        default=1.0,
        metavar="N",
        help="on a slow cluster, wait N times as long for esipp's own pods and for its changes to show; limits of "
        "checks stay as they are (default: 1)",
    )
    add(
        "--without",
        action="append",
        default=[],
        metavar="FEATURE",
        help="treat a feature as missing, so that its checks are unsupported (load-balancer, family.ipv6 ...); "
        "repeatable",
    )
    add_exclude(add)
    add_narrowing(add)
    add_depth(add)
    add(
        "--time-budget",
        type=partial(read_duration, "--time-budget"),
        default=None,
        metavar="TIME",
        help="how long the run may take, such as 10m: connections and endpoint changes are reduced to fit, checks are "
        "not; the run says what it can then miss",
    )
    add("--keep", action="store_true", help="leave the run's namespace in the cluster; 'esipp clean' removes it")
    add(
        "--pause-on-failure",
        action="store_true",
        help="wait for Enter after the first failure of each scenario, before anything is removed; needs a terminal",
    )
    add(
        "--seed",
        type=int,
        default=None,
        metavar="N",
        help="seed of all random choices: which node has which role, which pod changes when, which nodes run an "
        "agent (default: random; the report states it)",
    )
    add(
        "--sample-nodes",
        type=int,
        default=DEFAULT_NODES,
        metavar="N",
        help="maximum number of nodes that run an agent: the nodes with a role, and others chosen at random by --seed; "
        f"the report names them (default: {DEFAULT_NODES})",
    )
    add_parallel(add)
    add(
        "--allow-disruptive",
        action="store_true",
        help="also run checks that affect other users of the cluster: they cordon nodes, drain our pods, exclude nodes "
        "from load balancers for a while, restart kube-proxy, speakers and kubelets, and stop the API server for 30 s",
    )
    add(
        "--kube-proxy-image",
        default=os.environ.get("ESIPP_KUBE_PROXY_IMAGE", ""),
        metavar="REFERENCE",
        help="with --allow-disruptive: another image of kube-proxy, such as the previous version's, which replaces it "
        "node by node for a while (default: $ESIPP_KUBE_PROXY_IMAGE)",
    )
    add(
        "--network-agent-image",
        default=os.environ.get("ESIPP_NETWORK_AGENT_IMAGE", ""),
        metavar="REFERENCE",
        help="with --allow-disruptive, on clusters with Cilium: another image of its agent, of this minor version or "
        "one beside it, which replaces it on all nodes for a while (default: $ESIPP_NETWORK_AGENT_IMAGE)",
    )
    add(
        "--long",
        action="store_true",
        help="also run checks that take long: connections that are idle for 16 min, and a Service with 50 endpoints",
    )
    add(
        "--redact-cloud-ids",
        action="store_true",
        help="replace what identifies a cloud account with pseudonyms, so that the report can be published: provider, "
        "project and subscription ids, node names, hosts of load balancers and of the API server, hosts of --outside "
        "ssh: and their public addresses. Other IP addresses stay, including this machine's: they are the evidence",
    )
    add(
        "--source-ranges",
        default="auto",
        metavar="WHO",
        help="clients that may use the VIPs (loadBalancerSourceRanges): clients (those of the run), off (no limit), or "
        "comma-separated CIDRs (default: auto, which means off on kind and clients elsewhere)",
    )
    add(
        "--implementation",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"the tested implementation, for the conformance report: {', '.join(FIELDS)}; repeatable",
    )
    add(
        "--fail-on",
        choices=[each.value for each in Binding],
        default=Binding.EXTENDED.value,
        help="checks that make the run fail: core checks only, or extended checks too (default: extended)",
    )
    add(
        "--accept-known-defects",
        action="store_true",
        help="exit with code 0 if core checks differ only by known defects or findings; the report names them",
    )
    add(
        "--waivers",
        default="",
        metavar="FILE.yaml",
        help="accepted failures, each with check, reason, owner, expires, reference; they are counted apart, "
        "and an expired or unused waiver makes the run fail (docs/verdicts.md)",
    )
    add_require(add)
    add_deploying_options(add)


def add_depth(add: Any) -> None:
    """Add the options that say how often each question is asked."""
    add(
        "--samples",
        type=int,
        default=None,
        metavar="N",
        help=f"connections per path in the judged window (default: {DEFAULT_SAMPLES}, or as the profile says)",
    )
    add(
        "--moves",
        type=int,
        default=None,
        metavar="N",
        help="endpoint changes of each kind (first endpoint added to a node, last one removed) that each load balancer "
        f"must follow (default: {DEFAULT_MOVES}, or as the profile says)",
    )


def depth_of(options: Any) -> Depth:
    """How often each question is asked: as the options say, else as their profile does."""
    profile = PROFILES[options.profile]
    samples = profile.samples if options.samples is None else options.samples
    return Depth(samples, profile.moves if options.moves is None else options.moves)


def add_bound(add: Any) -> None:
    """Add the option that sets how fast the cluster's own load balancer must stop using a node."""
    add(
        "--bound",
        type=float,
        default=None,
        metavar="SECONDS",
        help="how long the cluster's own load balancer may lose requests after a node's health check first answers "
        "503; its checks are judged by this bound, and timeouts grow with it (default: (N+1) x period of the profile)",
    )


def add_parallel(add: Any) -> None:
    """Add the option that limits how many load balancers exist at the same time."""
    add(
        "--parallel-load-balancers",
        type=int,
        default=None,
        metavar="N",
        help="maximum number of Services that the cluster's own load balancer serves at the same time; the run works "
        "in batches (default: all at once, or in batches if a ResourceQuota refuses some)",
    )


def check_numbers(options: Any) -> None:
    """Validate the numbers that ``esipp run`` and ``esipp plan`` share.

    Raises:
        PreflightError: a number is out of range.
    """
    bounds = (("samples", 1, 10_000), ("moves", 1, 1000), ("sample-nodes", 3, MOST_NODES))
    for name, least, most in (*bounds, ("parallel-load-balancers", 1, 1000)):
        given = getattr(options, name.replace("-", "_"))
        if given is not None and not least <= given <= most:
            raise PreflightError(f"--{name} {given} is out of range.", f"use {least} to {most}.")
    if options.bound is not None and not 0.0 < options.bound <= MOST_BOUND:
        raise PreflightError(
            f"--bound {options.bound:g} is out of range.", f"use more than 0 and at most {MOST_BOUND:.0f} s."
        )


def settings_of(options: Any) -> Settings:
    """The settings that parsed options result in.

    Raises:
        PreflightError: a value is invalid.
    """
    context, kubeconfig = in_pod.named(
        options.context, options.kubeconfig, options.in_cluster, yes=getattr(options, "yes", False)
    )
    check_numbers(options)
    if not 1.0 <= options.timeout_factor <= MOST_FACTOR:
        raise PreflightError(
            f"--timeout-factor {options.timeout_factor:g} is out of range.", f"use 1 to {MOST_FACTOR:.0f}."
        )
    if not options.lane.replace("-", "").replace(".", "").isalnum():
        raise PreflightError(
            f"--lane '{options.lane}' cannot be part of a folder name.", "use letters, digits, '-' and '.'."
        )
    read_ranges(options.source_ranges)
    outside = ",".join(options.outside or [AUTO])
    read_places(outside)
    profile, depth = provider(options.provider) if options.provider else None, depth_of(options)
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
        samples=depth.samples,
        fail_on=Binding(options.fail_on),
        accept_known_defects=options.accept_known_defects,
        require=read_required(options.require, list(counts(all_checks()))) if options.require else (),
        moves=depth.moves,
        allow_disruptive=options.allow_disruptive or PROFILES[options.profile].disruptive,
        long=options.long,
        kube_proxy_image=options.kube_proxy_image,
        network_agent_image=options.network_agent_image,
        time_budget=options.time_budget,
        keep=options.keep,
        pause_on_failure=options.pause_on_failure,
        as_user=options.as_user,
        request_timeout=options.request_timeout,
        baseline=options.baseline,
        redact_cloud_ids=options.redact_cloud_ids,
        implementation=read_implementation(options.implementation),
        source_ranges=options.source_ranges,
        customisation=provided(read_customisation(options), profile, internal=options.internal),
        sample_nodes=options.sample_nodes,
        parallel_load_balancers=options.parallel_load_balancers,
        seed=secrets.randbelow(10**6) if options.seed is None else options.seed,
        bound=options.bound,
        timeout_factor=options.timeout_factor,
        waivers_file=options.waivers,
        waivers=read_waivers(options.waivers, {check.id for check in all_checks()}) if options.waivers else (),
    )
