"""The examination of the doctor: all preflight steps, whichever of them fails, and then what a run would do."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from esipp.app.doctor import admission, environment, machine, nodes
from esipp.app.doctor.model import DoctorCheck, Grade, LeftOver, Report, no, ok, warn
from esipp.app.plan.plan import RUN, Work, work_of
from esipp.base.errors import EsippError
from esipp.base.json import Json
from esipp.checks.check import Check, Level, missing_features
from esipp.checks.model import Role
from esipp.cluster.client import Cluster
from esipp.cluster.namespaces import is_alive
from esipp.cluster.rights import lacking
from esipp.disruption import daemon_sets, marks
from esipp.judging.topology import with_control_plane
from esipp.ledger.run import Settings, know_cloud
from esipp.loadbalancers.reference import Reference
from esipp.loadbalancers.reference import find as find_reference
from esipp.preflight.preflight import EarlierSteps, Findings, look_around, read_reference
from esipp.preflight.steps import (
    Outside,
    check_disk,
    check_image,
    check_kubectl,
    check_nodes,
    check_outside,
    check_version,
    list_nodes,
    missing_rights,
    read_nodes,
)
from esipp.probing import outside
from esipp.testbed import leftovers, network_policies
from esipp.testbed.echo_image import EchoImage, default_image
from esipp.testbed.objects import Ground
from esipp.testbed.pull_secret import load
from esipp.testbed.sampling import sample

NEEDS_SERVER = (
    "clock, rights, nodes, families, data plane, image on nodes, quota, limits, admission, network policies, outside, "
    "load balancers, leftovers"
)


def examine_all(settings: Settings, checks: Sequence[Check], asked: Sequence[str]) -> Report:
    """Examine this machine and the cluster.

    Args:
        settings: the settings of the run.
        checks: the selected checks.
        asked: the arguments of ``esipp run`` that are not settings, among them the selected checks.
    """
    report = Report(" ".join([settings.repeat, *map(shlex.quote, asked)]), settings.clean)
    know_cloud(settings)
    cluster = report.must("kubeconfig", lambda: Cluster.of(settings))
    version = report.must("API server", cluster.version) if cluster else None
    own = default_image(cluster.server) if cluster and not settings.image else None
    _machine(report, settings, version or "", own)
    if cluster is None or version is None:
        said = f"not examined, because they need the API server: {NEEDS_SERVER}"
        report.checks.append(warn("other checks", said, "fix that first, and run esipp doctor again."))
        report.why_no_work = "the API server is not available"
        return report
    examine_cluster(report, cluster, version, settings, checks)
    return report


def _machine(report: Report, settings: Settings, version: str, own: EchoImage | None) -> None:
    """Examine what needs no cluster; ``own`` is the image of a run that names none."""
    checks = report.checks
    if own is not None:
        kind = f"a run builds {own.reference} from its own sources and loads it into kind's nodes"
        said = kind if own.nodes else f"a run uses that of this release, {own.reference}"
        checks.append(ok("image", f"none is named: {said}"))
    elif report.passes("image", partial(check_image, settings)):
        checks.append(ok("image", f"{settings.image} is a valid image reference"))
    path = report.must("kubectl", check_kubectl)
    if path:
        checks.append(machine.of_kubectl(path, machine.kubectl_version(path), version))
    disk = report.must("disk", lambda: check_disk(settings))
    if disk:
        checks.append(ok("disk", f"{disk[1] / 2**30:.1f} GiB are free in {disk[0]}"))


def examine_cluster(
    report: Report, cluster: Cluster, version: str, settings: Settings, checks: Sequence[Check]
) -> None:
    """Examine the cluster through its API server."""
    said_of = report.checks
    if report.passes("API server", partial(check_version, version)):
        said_of.append(environment.of_version(version, cluster.server))
    report.may("clock", lambda: machine.of_clock(cluster), "check whether a proxy is in between.")
    _rights(report, cluster, settings, checks)
    raw = report.must("nodes", lambda: list_nodes(cluster))
    pull = settings.customisation.pull_secret
    has_secret = report.passes("pull secret", lambda: load(cluster, pull, settings.image))
    secret = f"with --image-pull-secret {pull}" if pull else "without a pull secret of esipp"
    if has_secret:
        said = f"{pull} has credentials for {settings.image}" if pull else "none requested"
        said_of.append(ok("pull secret", said))
    found = None
    if raw:
        there = read_nodes(raw, settings)
        cast = report.must("nodes", lambda: check_nodes(raw, settings))
        parts = with_control_plane(there.values(), cast[1], settings.seed) if cast else {}
        chosen = sample(there.values(), parts, settings.sample_nodes, settings.seed)
        said_of.append(nodes.of_nodes(raw, cast[1] if cast else {}, settings.customisation, chosen))
        if settings.image:
            said_of.append(nodes.of_image(settings.image, raw, there, secret))
        roles = cast[1] if cast else {Role.ENDPOINT_NODE: nodes.first(there.values())}
        found = _around(report, cluster, settings, EarlierSteps(version, raw, there, roles, Outside(), None))
        if found:
            _found(report, found, settings)
        if found and cast:
            _work(report, found, settings, checks)
    elif raw is not None:
        said_of.append(no("nodes", "the cluster has no nodes", "a run needs two nodes that can run pods."))
    if report.work is None:
        report.why_no_work = "too little is known about the cluster; see the lines with 'no'"
    _admission(report, cluster, settings, found, raw)
    _left(report, cluster)


def _rights(report: Report, cluster: Cluster, settings: Settings, checks: Sequence[Check]) -> None:
    missing = report.must("rights", lambda: missing_rights(cluster, settings, {check.suite for check in checks}))
    if missing is not None:
        report.checks.append(environment.of_rights(missing, checks))
    report.may(
        "more rights",
        lambda: environment.of_welcome(lacking(cluster, environment.OPTIONAL), checks),
        "see docs/rights.md.",
    )


def _around(report: Report, cluster: Cluster, settings: Settings, earlier: EarlierSteps) -> Findings | None:
    """Determine facts and features. A step that fails is left out and reported."""
    outside = report.must("outside", lambda: check_outside(settings, earlier.nodes)) or Outside()
    reference: Reference | None = None
    if outside.network:
        network = outside.network
        found_reference = report.must("reference", lambda: find_reference(network, cluster.server))
        if found_reference and report.must("reference", lambda: read_reference(found_reference)):
            reference = found_reference
    earlier = earlier._replace(outside=outside, reference=reference)
    found = report.must("features", lambda: look_around(cluster, settings, earlier))
    if found is None and settings.without:  # the option is invalid; the other findings are still useful
        try:
            found = look_around(cluster, replace(settings, without=()), earlier)
        except EsippError:
            return None
    return found


def _found(report: Report, found: Findings, settings: Settings) -> None:
    failed = {check.name for check in report.checks if check.grade is Grade.NO}
    checks = [
        *environment.of_required(found, settings.require),
        environment.of_families(found),
        environment.of_proxy(found),
        environment.of_outside(found),
        *environment.of_balancer(found, settings.source_ranges, settings.customisation.internal, settings.bound),
        environment.of_reference(found),
        environment.of_view(found),
    ]
    report.checks += [check for check in checks if check.name not in failed]


def _work(report: Report, found: Findings, settings: Settings, checks: Sequence[Check]) -> None:
    """Determine which checks would run, what they create, and how long they take."""
    roles = with_control_plane(found.nodes.values(), found.roles, settings.seed)
    ground = Ground(RUN, settings.image or "image", found.nodes, roles, found.features, sampled=found.sample.nodes)
    detected = found.balancer
    work = work_of(
        checks, ground, detected.profiles, settings.samples, settings.moves, sure=detected.named, chosen=found.sample,
        bound=settings.bound, parallel=settings.parallel_load_balancers,
    )  # fmt: skip
    report.work = work
    report.left_out = sum(_is_left_out(check, found) for check in checks)
    report.created = _created(work, settings, found)
    report.later = [
        "second addresses of nodes (the agents report them)",
        "whether the addresses of outside clients can be verified, and whether they reach nodes and VIPs",
        "whether the cluster provisions load balancers, and what these support",
    ]
    if not work.asked:
        report.checks.append(no("checks", "none of the checks can run", "see the reasons below."))


def _is_left_out(check: Check, found: Findings) -> bool:
    """Whether a core check does not run because of options, clients or rights."""
    about = check.level is Level.CORE and not check.instrument
    return about and any(each.ours for each in missing_features(check, found.features).values())


def _created(work: Work, settings: Settings, found: Findings) -> list[str]:
    made = ["Deployments of the continuity suite"] if any(check.suite == "continuity" for check in work.asked) else []
    made += ["a copy of the pull secret"] if settings.customisation.pull_secret else []
    made += ["a NetworkPolicy that allows all traffic, if others deny some"]
    policies = any(network_policies.FEATURE in check.features for check in work.asked)
    made += ["NetworkPolicies for pods of the suite changes"] if policies else []
    made += ["processes of the prober on this machine or over ssh"] if found.described else []
    if settings.allow_disruptive:
        made += ["cordons, labels and annotations on nodes, one at a time (--allow-disruptive)"]
    return made


def _admission(
    report: Report, cluster: Cluster, settings: Settings, found: Findings | None, raw: list[Json] | None
) -> None:
    made = report.work.made if report.work else None
    if found:
        report.checks.append(admission.of_namespace(found.features["host-network"]))
    if raw:
        node = found.roles[next(iter(found.roles))] if found else raw[0]["metadata"]["name"]
        image = settings.image or "image"
        report.may("pods", lambda: admission.of_pod(cluster, node, image), admission.HINT_RETRY)
    report.may("services", lambda: admission.of_service(cluster), admission.HINT_RETRY)
    report.may("quota", lambda: admission.of_quota(cluster, made), admission.HINT_RIGHTS)
    report.may("limits", lambda: admission.of_limits(cluster), admission.HINT_RIGHTS)
    report.may("network policies", lambda: admission.of_policies(cluster), admission.HINT_RIGHTS)


def _left(report: Report, cluster: Cluster) -> None:
    def look() -> DoctorCheck:
        report.left_over = left_over(cluster, report.clean)
        dead = [each for each in report.left_over if not each.alive]
        if dead:
            return warn("leftovers", f"{len(dead)} from earlier runs: {', '.join(each.what for each in dead[:3])}"
                        + (" ..." if len(dead) > 3 else ""), f"remove them with '{report.clean}'.")  # fmt: skip
        busy = f"; {len(report.left_over)} of active runs" if report.left_over else ""
        return ok("leftovers", f"none from earlier runs{busy}")

    report.may("leftovers", look, "the account must be able to list namespaces and nodes.")


def left_over(cluster: Cluster, command: str) -> list[LeftOver]:
    """Everything that certainly belongs to a run, including active ones.

    Args:
        cluster: the cluster.
        command: the ``esipp clean`` command for that cluster.

    Raises:
        ApiError, UnreachableError: the API server does not answer or refuses.
    """
    found, now = [], time.time()
    spaces = [each for each in leftovers.namespaces(cluster) if not each.foreign]
    for space in spaces:
        age = None if space.created is None else max(0.0, now - space.created)
        what = f"namespace {space.name}"
        found.append(LeftOver(what, space.run, age, f"{command} --run {space.run}", bool(space.alive)))
    busy = {each.owner for each in spaces if each.alive}
    for mark in marks.left_behind(cluster):
        what = f"node {mark.node} is {mark.mark.name.lower()}"
        found.append(LeftOver(what, mark.owner, None, command, mark.owner in busy or is_alive(mark.owner)))
    for left in daemon_sets.left_behind(cluster):
        what = f"{daemon_sets.ROLLOUTS[left.what].agents.title} is changed ({left.what})"
        found.append(LeftOver(what, left.owner, None, command, left.owner in busy or is_alive(left.owner)))
    for each in leftovers.containers(outside.left_behind(cluster.server), spaces):
        if not each.foreign:
            found.append(
                LeftOver(f"container {each.name}", each.run, None, f"{command} --run {each.run}", bool(each.alive))
            )
    return found
