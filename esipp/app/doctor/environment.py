"""Checks of what preflight found: rights, address families, data plane, outside clients, load balancers. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from esipp.app.doctor.model import DoctorCheck, no, ok, warn
from esipp.base.customisation import Pairs
from esipp.base.plural import counted
from esipp.checks.check import HEALTH_VIEW, OUTSIDE, PROXY_SKEW, TWO_ADDRESSES, Check
from esipp.checks.model import Family
from esipp.checks.required_features import lacking, refusal
from esipp.checks.rights import Right
from esipp.checks.timing import promise_of
from esipp.checks.versions import read_version
from esipp.cluster.dialect import NEWEST_RUN, dialect_of
from esipp.cluster.rights import OF_DISRUPTIONS, OF_EVERY_RUN, OF_FEATURES, WELCOME, needed_by
from esipp.loadbalancers.detection import Detected
from esipp.loadbalancers.profile_findings import class_of, of_words
from esipp.loadbalancers.profiles.words import bound
from esipp.preflight.preflight import Findings
from esipp.preflight.steps import HINT_RIGHTS
from esipp.testbed.source_ranges import FACT, decide

UNKNOWN = "unknown"


def of_version(version: str, server: str) -> DoctorCheck:
    """Whether esipp knows an API server of this minor version. ``check_version`` refuses one that is too old."""
    name, number = "API server", read_version(version)
    if number is None:
        return warn(name, f"{server} is {version}, an unreadable version", "esipp treats it as a new version.")
    if number > NEWEST_RUN:
        newest = "{}.{}".format(*NEWEST_RUN)
        return warn(
            name, f"{server} is {version}; the newest version tested with a full run is {newest}", "expect surprises."
        )
    remarks = dialect_of(version).remarks
    if remarks:
        return warn(name, f"{server} is {version}: {'; '.join(remarks)}", f"see 'esipp list --kubernetes {version}'.")
    return ok(name, f"{server} is {version}")


# ------------------------------------------------------------------------------------------------------------- rights
def of_rights(missing: Sequence[Right], checks: Iterable[Check]) -> DoctorCheck:
    """The missing rights that a run cannot begin without, and the checks that need them."""
    if not missing:
        return ok("rights", "the account has all rights that a run needs")
    suites = [check.suite for check in checks]
    grouped: dict[str, list[str]] = defaultdict(list)
    for right in missing:
        grouped[_for_what(right, suites)].append(str(right))
    said = "; ".join(f"{', '.join(rights)} (for {what})" for what, rights in grouped.items())
    return no("rights", f"the account lacks {said}", HINT_RIGHTS)


def _for_what(right: Right, suites: Sequence[str]) -> str:
    if right in OF_EVERY_RUN:
        return f"all {counted(len(suites), 'check')}" if len(suites) > 1 else "the check"
    of = [f"{suite}, {counted(count, 'check')}" for suite in needed_by(right) if (count := suites.count(suite))]
    return "; ".join([*of, *(["--allow-disruptive"] if right in OF_DISRUPTIONS else [])])


OPTIONAL = (*(right for rights in OF_FEATURES.values() for right in rights), *WELCOME)
"""Optional rights, without which a run still works."""


def of_welcome(missing: Sequence[Right], checks: Iterable[Check]) -> DoctorCheck:
    """The missing optional rights, and what a run lacks without them."""
    name = "more rights"
    if not missing:
        return ok(name, "the account also has the optional rights, which add details to reports")
    lost = {feature for feature, rights in OF_FEATURES.items() if set(rights) & set(missing)}
    count = sum(bool(lost & check.features) for check in checks)
    said = f"without {', '.join(map(str, missing))} "
    said += (
        counted(count, "check is unsupported", "checks are unsupported")
        if count
        else "some facts are unknown, and reports explain failures in less detail"
    )
    return warn(name, said, "docs/rights.md lists the purpose of each.")


# --------------------------------------------------------------------------------------------------------- data plane
def of_required(found: Findings, required: Sequence[str]) -> list[DoctorCheck]:
    """Whether the features of ``--require`` are present, if that is known before a run."""
    if not required:
        return []
    name, missing = "required", lacking(required, found.features)
    if missing:
        error = refusal(missing)
        return [no(name, error.sentence, error.hint)]
    later = [each for each in required if each not in found.features]
    if later:
        said = f"only a run can determine whether the cluster has {', '.join(later)}"
        return [warn(name, said, "the run ends with exit code 4 if one is missing.")]
    return [ok(name, f"{', '.join(required)}: present, judging by what is known before a run")]


def of_families(found: Findings) -> DoctorCheck:
    """The address families of nodes and Services."""
    name, features = "families", {family: found.features[f"family.{family.value.lower()}"] for family in Family}
    there = [family.value for family, feature in features.items() if feature.present]
    absent = [f"no {family.value}: {feature.why}" for family, feature in features.items() if not feature.present]
    if not there:
        return no(name, "; ".join(absent), "the nodes with a role need an InternalIP or an ExternalIP.")
    return ok(name, "; ".join([" and ".join(there), *absent]))


def of_proxy(found: Findings) -> DoctorCheck:
    """The service proxy on nodes, if Kubernetes shows it."""
    facts = found.facts
    names = ("service-proxy", "proxy-mode", "network-add-on", "node-port-addresses")
    said = ", ".join(f"{name} {facts.get(name, UNKNOWN)}" for name in names)
    if PROXY_SKEW in facts:
        said += f", {found.decided[PROXY_SKEW]}: {facts[PROXY_SKEW]}"
    unknown = [name for name in ("service-proxy", "proxy-mode") if facts.get(name, UNKNOWN) == UNKNOWN]
    if unknown:
        why = "; ".join(dict.fromkeys(found.decided.get(name, "") for name in unknown))
        return warn("data plane", f"{said} ({why})", "known differences that depend on it then count as failures.")
    return ok("data plane", said)


def of_outside(found: Findings) -> DoctorCheck:
    """Where outside clients run. Only a run shows whether they reach nodes."""
    name, first, second = "outside", found.features[OUTSIDE], found.features[TWO_ADDRESSES]
    if not first.present:
        return warn(name, first.why, "use --outside machine or ssh:USER@HOST; docs/outside.md lists what they need.")
    lost = sorted(n for n, f in found.features.items() if n.startswith(f"{OUTSIDE}.") and f.ours)
    where = f"{first.why}; a run shows whether they reach nodes and VIPs"
    if lost:
        why = "; ".join(dict.fromkeys(found.features[each].why for each in lost))
        hint = "add another machine: --outside machine,ssh:USER@HOST." if not second.present else "see docs/outside.md."
        return warn(name, f"{where}; {why}", hint)
    return ok(name, where)


# ------------------------------------------------------------------------------------------------------ load balancers
def of_balancer(
    found: Findings, text: str, internal: Pairs = (), promised: float | None = None
) -> Iterator[DoctorCheck]:
    """The profile of the cluster's own load balancer, what contradicts it, and who may use the VIPs.

    Args:
        found: what preflight found.
        text: the value of ``--source-ranges``.
        internal: the annotations that make load balancers internal, with ``--internal``.
        promised: the value of ``--bound``.
    """
    name, detected = "load balancer", found.balancer
    fact, platform = detected.fact, detected.platform
    if fact.value == UNKNOWN:
        said = f"unknown: {fact.decided}; nodes of {platform.value} ({platform.decided})"
        hint = "set timeouts with --provider NAME or your own profile; --without load-balancer skips its checks."
        yield warn(name, said, hint)
    else:
        yield ok(name, f"{fact.value} ({fact.decided}): {_traits(detected)}")
    yield ok("bound", promise_of(detected.profiles, sure=detected.named, bound=promised).words)
    for finding in of_words(detected):
        yield warn(name, finding.sentence, "name the right profile with --provider, or none.")
    ranges = decide(text, {**found.facts, FACT: ""})
    whom = "the run's own clients" if ranges.clients else ", ".join(ranges.given) or "all clients"
    made = ", ".join(f"{key}={value}" for key, value in internal)
    yield ok("VIPs", f"admit {whom} ({ranges.why})" + (f"; internal, by {made}" if made else ""))


def _traits(detected: Detected) -> str:
    bounds = sorted({bound(each.local) for each in detected.profiles})
    return f"class {class_of(detected, 'none').value}, bound {' or '.join(bounds)}"


def of_reference(found: Findings) -> DoctorCheck:
    """The reference load balancer, which exists next to kind's nodes only."""
    name = "reference"
    if found.reference:
        return ok(name, f"{found.facts['load-balancer.reference']} (container {found.reference.container})")
    said = "there is no reference load balancer next to the nodes: its checks are unsupported"
    if found.facts.get("provider") == "kind":
        return warn(name, said, "./ci/conformance --keep creates a cluster with one.")
    return ok(name, said)


def of_view(found: Findings) -> DoctorCheck:
    """Whether esipp can read the node health that the cluster's own load balancer reports."""
    feature = found.features[HEALTH_VIEW]
    if feature.present:
        return ok("health view", feature.why)
    hint = "install it, and log in." if feature.ours else "docs/health-views.md lists the supported load balancers."
    return warn("health view", feature.why, hint)
