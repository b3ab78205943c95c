"""Profile findings: contradictions between evidence and a profile. Pure; no verdict depends on them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from esipp.checks.check import Fact
from esipp.checks.model import AddressClass, Family, Path, TrafficPolicy, Vantage
from esipp.checks.profile import Class, LoadBalancer
from esipp.checks.timing import PERIOD_OFF, Checking
from esipp.judging.observation import Observation, origin_of
from esipp.judging.topology import Topology
from esipp.loadbalancers.detection import UNKNOWN, Detected
from esipp.loadbalancers.profiles.words import seconds, sources_seen

CLASS = "load-balancer.class"
"""The name of the fact."""

PROXIED = frozenset({AddressClass.LOAD_BALANCER, AddressClass.OTHER})
"""The classes of a proxy's unknown address."""


@dataclass(frozen=True)
class Finding:
    """A contradiction: what it is about, and a sentence."""

    about: str
    sentence: str


@dataclass(frozen=True)
class Behaviour:
    """The sources of outside clients' packets at VIPs of the cluster's own load balancer, by policy.

    ``local`` and ``cluster`` count the classes of sources that pods saw, ``others`` are the unknown addresses.
    """

    local: Mapping[AddressClass, int] = field(default_factory=dict)
    cluster: Mapping[AddressClass, int] = field(default_factory=dict)
    others: tuple[str, ...] = ()


def behaviour(
    observations: Mapping[str, Sequence[Observation]], paths: Iterable[Path], topology: Topology
) -> Behaviour:
    """The behaviour of the cluster's own load balancer in a judged window."""
    observed: dict[TrafficPolicy, Counter[AddressClass]] = {policy: Counter() for policy in TrafficPolicy}
    others: set[str] = set()
    for path in paths:
        service = path.service
        if not _is_own(path) or service is None:
            continue
        counted = observed[service.policy or TrafficPolicy.CLUSTER]
        for each in observations.get(path.key, ()):
            if each.seen and each.source:
                classes = origin_of(topology, path, each.seen[0], each.source[0]).classes
                first = next((one for one in AddressClass if one in classes), AddressClass.OTHER)
                counted[first] += each.count
                others |= {each.seen[0]} if first in PROXIED else set()
    return Behaviour(observed[TrafficPolicy.LOCAL], observed[TrafficPolicy.CLUSTER], tuple(sorted(others)))


def class_of(detected: Detected, ingress: str, observed: Behaviour | None = None) -> Fact:
    """Forwarder or proxy: by the source that pods saw, else by the VIP's announcement, else by the profile.

    Args:
        detected: the detected load balancer.
        ingress: the announcement of the VIP: VIP, Proxy, hostname, or none.
        seen: the behaviour in a judged window, if there was one.
    """
    local = {each for each, count in (observed.local if observed else {}).items() if count}
    if observed and local:
        if AddressClass.CLIENT in local:
            return Fact(Class.FORWARDER.value, "under Local pods saw the client's own address")
        if local <= PROXIED:
            whose = ", ".join(observed.others[:3]) or "the load balancer"
            return Fact(Class.PROXY.value, f"under Local pods saw {whose}, never the client's own address")
        return Fact(UNKNOWN, f"under Local pods saw {sources_seen(local)}")
    if ingress == "Proxy":
        return Fact(Class.PROXY.value, "ipMode Proxy in the Services' status")
    classes = {each.kind.value for each in detected.profiles}
    if len(classes) == 1:
        return Fact(classes.pop(), detected.fact.value)
    if ingress == "VIP":
        return Fact(Class.FORWARDER.value, "ipMode VIP in the Services' status, or none, which means the same")
    return Fact(UNKNOWN, "neither the Services' status nor packets show it")


def _is_own(path: Path) -> bool:
    """Whether a client outside dials a VIP of the cluster's own load balancer there."""
    return bool(path.balanced) and path.client.vantage is Vantage.OUTSIDE


# ------------------------------------------------------------------------------------------------- contradictions
def of_words(detected: Detected) -> list[Finding]:
    """Contradictions between ``--provider`` and the detected load balancer."""
    if not detected.named:
        return []
    (named,), platform = detected.profiles, detected.platform.value
    if named.found.platforms and platform not in named.found.platforms and platform != UNKNOWN:
        where = " or ".join(sorted(named.found.platforms))
        return [
            Finding("platform", f"--provider says {named.name}, which belongs to {where}; the nodes are on {platform} "
                                f"({detected.platform.decided})")
        ]  # fmt: skip
    if not detected.found or any(_akin(named, each) for each in detected.found):
        return []
    names = " or ".join(each.name for each in detected.found)
    return [Finding("profile", f"--provider says {named.name}; detected: {names} ({detected.how})")]


def _akin(one: LoadBalancer, other: LoadBalancer) -> bool:
    """Whether they are the same, or variants that look alike on a cluster."""
    return one.name in (other.name, other.like) or other.name == one.like or (one.like == other.like != "")


def of_status(detected: Detected, ingress: str) -> list[Finding]:
    """Contradictions between a VIP's announcement and the profile.

    Args:
        detected: the detected load balancer.
        ingress: the announcement of the VIP: VIP, Proxy, hostname, or none.
    """

    def look(profile: LoadBalancer) -> Iterable[Finding]:
        form, mode = profile.status.form.value, profile.status.ip_mode
        if ingress == "none" or form == "none":
            return
        if (ingress == "hostname") != (form == "hostname"):
            given = "a hostname only" if ingress == "hostname" else "an address"
            want = "a hostname" if form == "hostname" else "an address"
            yield Finding("form", f"{profile.name} usually announces {want}; the Services' status has {given}")
        elif mode is not None and ingress not in ("hostname", mode.value):
            yield Finding("ip-mode", f"{profile.name} has ipMode {mode.value}; the Services' status says {ingress}")
        if ingress == "Proxy" and profile.kind is Class.FORWARDER:
            yield Finding("class", f"{profile.name} is a forwarder; ipMode Proxy says that connections end at a proxy")

    return _agreed(detected, look)


def of_internal(internal: bool, vips: Iterable[str]) -> list[Finding]:
    """Internal load balancers with public addresses.

    Args:
        internal: whether the load balancers should be internal.
        vips: their addresses. IPv6 is ignored: internally routed addresses look like any other.
    """
    public = [each for each in sorted(set(vips)) if internal and (at := ip_address(each)).version == 4 and at.is_global]
    if not public:
        return []
    said = f"load balancers should be internal, but have public addresses: {', '.join(public[:3])}"
    return [Finding("internal", f"{said}; the provider ignores the annotation, or it is another provider")]


def of_vips(detected: Detected, families: Collection[Family]) -> list[Finding]:
    """VIPs of families that the profile does not support, so that possible checks did not run.

    Args:
        detected: the detected load balancer.
        families: those of the VIPs of our Services that name no class.
    """

    def look(profile: LoadBalancer) -> Iterable[Finding]:
        more = sorted(family.value for family in families if family not in profile.carries.families.value)
        if more:
            said = f"{profile.name} does not support {' or '.join(more)}; our Services have such VIPs"
            yield Finding("families", said)

    return _agreed(detected, look)


def of_behaviour(detected: Detected, observed: Behaviour) -> list[Finding]:
    """Contradictions between the source that pods saw and the profile."""

    def look(profile: LoadBalancer) -> Iterable[Finding]:
        local = {each for each, count in observed.local.items() if count}
        if not local:
            return
        who = sources_seen(local)
        if profile.kind is Class.FORWARDER and local & PROXIED and AddressClass.CLIENT not in local:
            whose = f" ({', '.join(observed.others[:3])})" if observed.others else ""
            said = f"{profile.name} is a forwarder; under Local pods saw {who}{whose}, as behind a proxy"
            yield Finding("class", said)
        elif profile.kind is Class.PROXY and AddressClass.CLIENT in local:
            yield Finding("class", f"{profile.name} is a proxy; under Local pods saw the client's own address")
        elif profile.kind is Class.FORWARDER and AddressClass.CLIENT not in local:
            yield Finding("source", f"{profile.name} keeps the client's address under Local; pods saw {who}")

    return _agreed(detected, look)


def of_checks(detected: Detected, observed: Checking) -> list[Finding]:
    """Contradictions between health probes in packets at the nodes and the profile."""

    def look(profile: LoadBalancer) -> Iterable[Finding]:
        check, period = profile.local, observed.period
        if period is None:
            return
        if not check.on:
            off = "makes no health checks" if not check.there else "makes health checks only on request"
            yield Finding("checks", f"{profile.name} {off}; packets show one every {seconds(round(period, 2))}")
        elif check.period is not None and abs(period - check.period.value) > PERIOD_OFF * check.period.value:
            yield Finding(
                "period",
                f"{profile.name} probes every {seconds(check.period.value)}; packets show {seconds(round(period, 2))}",
            )

    return _agreed(detected, look)


def _agreed(detected: Detected, look: Callable[[LoadBalancer], Iterable[Finding]]) -> list[Finding]:
    """The findings that contradict all fitting profiles, in the words for the first."""
    each = [list(look(profile)) for profile in detected.profiles]
    common = set.intersection(*({one.about for one in found} for found in each)) if each else set()
    return [one for one in (each[0] if each else []) if one.about in common]
