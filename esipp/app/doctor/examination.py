"""The doctor's way through everything: preflight's steps, none of which ends it, and then what a run would do."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from esipp.app.doctor import admission, nodes
from esipp.app.doctor import environment as surroundings
from esipp.app.doctor import leftovers as left
from esipp.app.doctor import machine as here
from esipp.app.doctor.model import DoctorCheck, Grade, Report, no, ok, warn
from esipp.app.plan.plan import RUN, Json, Work, work_of
from esipp.base.errors import EsippError
from esipp.checks.check import Check, Level, missing_features
from esipp.checks.model import Role
from esipp.cluster.client import Cluster
from esipp.cluster.rights import lacking
from esipp.judging.topology import with_control_plane
from esipp.ledger.run import Settings, know_cloud
from esipp.loadbalancers.reference import Reference
from esipp.loadbalancers.reference import find as find_reference
from esipp.preflight.preflight import Findings, Seen, ask_reference, look_around
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
from esipp.testbed.objects import Ground
from esipp.testbed.pull_secret import load
from esipp.testbed.sampling import sample

RUN_WORDS, CLEAN_WORDS = "esipp run", "esipp clean"

NEEDS_SERVER = (
    "clock, rights, nodes, families, data plane, image on nodes, quota, limits, admission, network policies, outside, "
    "load balancers, left-overs"
)


def examine_all(settings: Settings, checks: Sequence[Check], asked: Sequence[str]) -> Report:
    """Look at everything.

    Args:
        settings: of the run that is meant.
        checks: those that it would be asked for.
        asked: the same, and what else is no setting, as words of ``esipp run``.
    """
    report = Report(" ".join([settings.repeat, *map(shlex.quote, asked)]), clean_command(settings))
    know_cloud(settings)
    cluster = report.must("kubeconfig", lambda: Cluster(settings.context, settings.kubeconfig, settings.customisation))
    version = report.must("API server", cluster.version) if cluster else None
    _here(report, settings, version or "")
    if cluster is None or version is None:
        said = "were not looked at: they need the API server"
        report.checks.append(warn("all else", f"{NEEDS_SERVER} {said}", "mend that first, and ask again."))
        report.why_no_work = "the API server was not asked"
        return report
    examine_cluster(report, cluster, version, settings, checks)
    return report


def clean_command(settings: Settings) -> str:
    """What removes the left-overs of such runs; begun as ``Settings.repeat`` is where something wraps esipp."""
    start = os.environ.get("ESIPP_REPEAT", "")
    where = "--in-cluster" if settings.in_cluster else f"--context {shlex.quote(settings.context)}"
    command = start.replace(RUN_WORDS, CLEAN_WORDS, 1) if RUN_WORDS in start else f"{CLEAN_WORDS} {where}"
    told = settings.kubeconfig if not settings.in_cluster else None
    return f"{command} --kubeconfig {shlex.quote(told)}" if told else command


def _here(report: Report, settings: Settings, version: str) -> None:
    """What is known without the cluster."""
    checks = report.checks
    if report.passes("image", partial(check_image, settings)):
        checks.append(ok("image", f"{settings.image} is a reference"))
    path = report.must("kubectl", check_kubectl)
    if path:
        checks.append(here.of_kubectl(path, here.kubectl_version(path), version))
    disk = report.must("disk", lambda: check_disk(settings))
    if disk:
        checks.append(ok("disk", f"{disk[1] / 2**30:.1f} GiB are free in {disk[0]}"))


def examine_cluster(
    report: Report, cluster: Cluster, version: str, settings: Settings, checks: Sequence[Check]
) -> None:
    """What an API server that answers tells."""
    said_of = report.checks
    if report.passes("API server", partial(check_version, version)):
        said_of.append(surroundings.of_version(version, cluster.server))
    report.may("clock", lambda: here.of_clock(cluster), "is it asked through a proxy?")
    _rights(report, cluster, settings, checks)
    raw = report.must("nodes", lambda: list_nodes(cluster))
    pull = settings.customisation.pull_secret
    has_secret = report.passes("pull secret", lambda: load(cluster, pull, settings.image))
    secret = f"with --image-pull-secret {pull}" if pull else "without a secret of ours"
    if has_secret:
        said = f"{pull} has what {settings.image} is pulled with" if pull else "none is named, and so none is made"
        said_of.append(ok("pull secret", said))
    found = None
    if raw:
        there = read_nodes(raw, settings)
        cast = report.must("nodes", lambda: check_nodes(raw, settings))
        parts = with_control_plane(there.values(), cast[1]) if cast else {}
        chosen = sample(there.values(), parts, settings.sample_nodes, settings.seed)
        said_of.append(nodes.of_nodes(raw, cast[1] if cast else {}, settings.customisation, chosen))
        if settings.image:
            said_of.append(nodes.of_image(settings.image, raw, there, secret))
        roles = cast[1] if cast else {Role.ENDPOINT_NODE: nodes.first(there.values())}
        found = _around(report, cluster, settings, Seen(version, raw, there, roles, Outside(), None))
        if found:
            _found(report, found, settings)
        if found and cast:
            _work(report, found, settings, checks)
    elif raw is not None:
        said_of.append(no("nodes", "there are none", "two are needed that take pods."))
    if report.work is None:
        report.why_no_work = "too little is known of the cluster, as the lines with 'no' say"
    _admission(report, cluster, settings, found, raw)
    _left(report, cluster)


def _rights(report: Report, cluster: Cluster, settings: Settings, checks: Sequence[Check]) -> None:
    missing = report.must("rights", lambda: missing_rights(cluster, settings, {check.suite for check in checks}))
    if missing is not None:
        report.checks.append(surroundings.of_rights(missing, checks))
    report.may(
        "more rights", lambda: surroundings.of_welcome(lacking(cluster, surroundings.WISHED), checks), "docs/rights.md"
    )


def _around(report: Report, cluster: Cluster, settings: Settings, seen: Seen) -> Findings | None:
    """Facts and features; what fails on the way is left out, and told."""
    outside = report.must("outside", lambda: check_outside(settings, seen.nodes)) or Outside()
    reference: Reference | None = None
    if outside.network:
        network = outside.network
        standing = report.must("reference", lambda: find_reference(network, cluster.server))
        if standing and report.must("reference", lambda: ask_reference(standing)):
            reference = standing
    seen = replace(seen, outside=outside, reference=reference)
    found = report.must("features", lambda: look_around(cluster, settings, seen))
    if found is None and settings.without:  # an option that makes no sense: all else is still of interest
        try:
            found = look_around(cluster, replace(settings, without=()), seen)
        except EsippError:
            return None
    return found


def _found(report: Report, found: Findings, settings: Settings) -> None:
    told = {check.name for check in report.checks if check.grade is Grade.NO}
    checks = [
        *surroundings.of_required(found, settings.require),
        surroundings.of_families(found),
        surroundings.of_proxy(found),
        surroundings.of_outside(found),
        *surroundings.of_balancer(found, settings.source_ranges, settings.customisation.internal, settings.bound),
        surroundings.of_reference(found),
        surroundings.of_view(found),
    ]
    report.checks += [check for check in checks if check.name not in told]


def _work(report: Report, found: Findings, settings: Settings, checks: Sequence[Check]) -> None:
    """What would be asked, and what that makes and takes."""
    roles = with_control_plane(found.nodes.values(), found.roles)
    ground = Ground(RUN, settings.image or "image", found.nodes, roles, found.features)
    detected = found.balancer
    asked = settings.samples, settings.moves
    work = work_of(
        checks,
        ground,
        detected.profiles,
        *asked,
        sure=detected.told,
        chosen=found.sample,
        bound=settings.bound,
        parallel=settings.parallel_load_balancers,
    )
    report.work = work
    report.left_out = sum(_is_left_out(check, found) for check in checks)
    report.created = _created(work, settings, found)
    report.later = [
        "second addresses of nodes (the agents tell them)",
        "whether clients outside are believed, and reach nodes and VIPs",
        "whether load balancers are made at all, and what they carry",
    ]
    if not work.asked:
        report.checks.append(no("rows", "none of the checks could be asked", "the reasons are told below."))


def _is_left_out(check: Check, found: Findings) -> bool:
    """Whether a core check is not asked through our own doing."""
    about = check.level is Level.CORE and not check.instrument
    return about and any(each.ours for each in missing_features(check, found.features).values())


def _created(work: Work, settings: Settings, found: Findings) -> list[str]:
    told = ["Deployments of the continuity suite"] if any(check.suite == "continuity" for check in work.asked) else []
    told += ["a copy of the pull secret"] if settings.customisation.pull_secret else []
    told += ["a NetworkPolicy that allows all, where others deny"]
    told += ["processes of the prober on this machine or over ssh"] if found.landed else []
    if settings.allow_disruptive:
        told += ["cordons, labels and annotations on nodes, one at a time (--allow-disruptive)"]
    return told


def _admission(
    report: Report, cluster: Cluster, settings: Settings, found: Findings | None, raw: list[Json] | None
) -> None:
    made = report.work.made if report.work else None
    if found:
        report.checks.append(admission.of_namespace(found.features["host-network"]))
    if raw:
        node = found.roles[next(iter(found.roles))] if found else raw[0]["metadata"]["name"]
        image = settings.image or "image"
        report.may("pods", lambda: admission.of_pod(cluster, node, image), "is the API server well?")
    report.may("services", lambda: admission.of_service(cluster), "is the API server well?")
    report.may("quota", lambda: admission.of_quota(cluster, made), admission.HINT_RIGHTS)
    report.may("limits", lambda: admission.of_limits(cluster), admission.HINT_RIGHTS)
    report.may("network policies", lambda: admission.of_policies(cluster), admission.HINT_RIGHTS)


def _left(report: Report, cluster: Cluster) -> None:
    def look() -> DoctorCheck:
        report.left_over = left.left_over(cluster, report.clean)
        dead = [each for each in report.left_over if not each.alive]
        if dead:
            return warn("left-overs", f"{len(dead)} of earlier runs: {', '.join(each.what for each in dead[:3])}"
                        + (" ..." if len(dead) > 3 else ""), f"{report.clean} removes them.")  # fmt: skip
        busy = f"; {len(report.left_over)} of runs that are at work" if report.left_over else ""
        return ok("left-overs", f"nothing of earlier runs{busy}")

    report.may("left-overs", look, "namespaces and nodes must be listed.")
