"""The run of this scenario: connections to each VIP in one window, and packets at the nodes meanwhile."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from esipp.base.interrupt import Stop
from esipp.checks.model import OUTSIDE, POD_BACKEND, Balancer, Family, Outcome, Protocol, TrafficPolicy
from esipp.checks.profile import PROXY_PORT, Destination, Grade, LoadBalancer, Target
from esipp.judging.ingress import held
from esipp.judging.observation import Observation
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.loadbalancers.reference import DEFAULT
from esipp.packets.capture import ASKED, IN, NAMED, REQUEST, Capture, End, Scope, Tap
from esipp.probing.prober import Job
from esipp.scenarios.context import Context, spare
from esipp.scenarios.load_balancer_probes.evidence import Figures, Key, Observed, Probe, ProbeEvidence, networks
from esipp.scenarios.load_balancer_probes.subject import ProfileFigure, What, service_name
from esipp.testbed import manifests
from esipp.testbed.testbed import Testbed

PORT = 80
TCP = Protocol.TCP.value
CONNECTIONS = 10
"""Connections to each VIP in each family, spread over the window."""

SHORTEST, LONGEST = 6.0, 45.0
PERIODS = 4.5
"""The window in periods of the slowest health check, within these limits in seconds."""

TIMEOUT = 3.0
SLACK = 20.0


def observe(context: Context) -> ProbeEvidence:
    """The figures of all profiles, and what packets showed meanwhile."""
    checks = context.asked(ProfileFigure)
    keys = list(dict.fromkeys((each.subject.balancer, each.subject.policy) for each in checks))
    reference = context.findings.reference
    settings = reference.view()["settings"] if reference else {}
    found = ProbeEvidence(certain=_certain(context))
    found.figures = {key: tuple(_figures(context, settings, *key)) for key in keys}
    periods = [each.period for figures in found.figures.values() for each in figures if each.period]
    seconds = min(LONGEST, max(SHORTEST, PERIODS * max(periods, default=0.0)))
    names = ", ".join(sorted({balancer.value for balancer, _ in keys}))
    with context.run.phase("load balancer probes", f"{names}: packets at the nodes for {seconds:.0f} s"):
        _window(context, keys, seconds, found)
    spare(context.testbed, found, [f"{balancer.value} {policy.value}" for balancer, policy in keys])
    return found


# ---------------------------------------------------------------------------------------------------- the profiles
def _certain(context: Context) -> frozenset[Balancer]:
    """The load balancers whose profile is certain."""
    own = {Balancer.DEFAULT} if context.testbed.balancer.certain else set()
    return frozenset({each for each in Balancer if each is not Balancer.DEFAULT} | own)


def _figures(
    context: Context, settings: Mapping[str, Any], balancer: Balancer, policy: TrafficPolicy
) -> Iterator[Figures]:
    """What the profiles say of a load balancer.

    What the reference load balancer cannot emulate of another one is its own: the target and path of health checks,
    and their sources, which are the addresses of its container (ci/emulation.py).
    """
    reference = context.findings.reference
    name = settings.get(DEFAULT) if balancer is Balancer.DEFAULT else balancer.value
    itself = (
        next((each for each in all_profiles() if f"esipp.dev/{name}" in each.found.classes), None) if name else None
    )
    if name and itself is None:
        itself = next(each for each in all_profiles() if each.name == Balancer.FORWARD.value)
    profiles = context.testbed.balancer.profiles if balancer is Balancer.DEFAULT else ()
    for profile in profiles or filter(None, (itself,)):
        of_checks = itself or profile
        check = of_checks.local if policy is TrafficPolicy.LOCAL else of_checks.cluster
        period = profile.local.period if itself else check.period
        own_settings = balancer is not Balancer.DEFAULT
        sources = networks(of_checks.probes.addresses.value if of_checks.probes.addresses else ())
        if reference and itself:
            sources = networks(reference.addresses.values())
        yield Figures(
            profile.name,
            check.target.value if check.on or not check.there else None,
            check.path.value if check.path else "",
            float(settings["period"]) if own_settings else period.value if period else None,
            sources,
            profile.datapath.destination.value,
            _documented(of_checks, profile, policy),
        )


def _documented(of_checks: LoadBalancer, profile: LoadBalancer, policy: TrafficPolicy) -> frozenset[What]:
    check = of_checks.local if policy is TrafficPolicy.LOCAL else of_checks.cluster
    graded = {
        What.PORT: check.target,
        What.PATH: check.path,
        What.SOURCE: of_checks.probes.addresses,
        What.PERIOD: profile.local.period if of_checks is not profile else check.period,
        What.DESTINATION: profile.datapath.destination,
    }
    return frozenset(what for what, figure in graded.items() if figure and figure.grade is Grade.DOCUMENTED)


# ------------------------------------------------------------------------------------------------------ the window
@dataclass(frozen=True)
class _Dialled:
    """A Service as it is dialled: what its ports on a node are for, its VIPs, and the pod's own ends."""

    targets: Mapping[int, Target]
    vips: Mapping[Family, str]
    pods: frozenset[End]

    @classmethod
    def of(cls, testbed: Testbed, key: Key) -> "_Dialled":
        """The Service of a load balancer and a policy."""
        name = service_name(*key)
        spec = testbed.services[name]["spec"]
        targets = {int(port["nodePort"]): Target.NODE_PORT for port in spec["ports"] if port.get("nodePort")}
        health = spec.get("healthCheckNodePort")
        targets |= {int(health): Target.HEALTH_CHECK_NODE_PORT} if health else {PROXY_PORT: Target.KUBE_PROXY}
        pods = {(address, manifests.TCP) for address in testbed.pods[POD_BACKEND].addresses.values()}
        return cls(targets, dict(testbed.vips.get(name, {})), frozenset(pods))

    @property
    def scope(self) -> tuple[set[tuple[str, int]], set[tuple[str, str, int]]]:
        """The ports and the endpoints of its packets."""
        ends = {(vip, PORT) for vip in self.vips.values()} | self.pods
        return {(TCP, port) for port in self.targets}, {(TCP, *end) for end in ends}

    def destination(self, end: End) -> Destination | None:
        """What a packet at a node is for; None if it is for another Service."""
        if end in self.pods:
            return Destination.POD
        if end[1] == PORT and end[0] in self.vips.values():
            return Destination.VIP
        return Destination.NODE if self.targets.get(end[1]) is Target.NODE_PORT else None


def _window(context: Context, keys: list[Key], seconds: float, found: ProbeEvidence) -> None:
    """Dial all Services for so many seconds, capture their packets at every node with an agent, and read them."""
    ours = {str(each) for each in held(context.topology)}  # the probers run from here on
    clients = context.clients
    services = {key: _Dialled.of(context.testbed, key) for key in keys}
    scopes = [each.scope for each in services.values()]
    scope = Scope(set().union(*(s[0] for s in scopes)), set().union(*(s[1] for s in scopes)), payloads=True)
    taps = [Tap(node, clients.on_agent(node), scope) for node in sorted(clients.agents)]
    try:
        with ThreadPoolExecutor(max_workers=12) as pool:
            silent = [why for why in pool.map(Tap.listening, taps) if why]
        flying = {key: [_dial(context, name, vip, seconds) for name, vip in each.vips.items()]
                  for key, each in services.items()}  # fmt: skip
        stop = Stop()
        made = {key: [one for each in jobs for one in stop.result(each, seconds + SLACK)]
                for key, jobs in flying.items()}  # fmt: skip
    finally:
        with ThreadPoolExecutor(max_workers=12) as pool:
            captures = list(pool.map(Tap.stop, taps))
    found.incomplete = "; ".join(dict.fromkeys([*silent, *(each.trouble for each in captures if each.trouble)]))
    for key, service in services.items():
        if service.vips:
            found.observed[key] = _read(service, captures, made[key], ours, seconds)
        else:
            obstacles = (why for (name, _), why in context.testbed.obstacles.items() if name == service_name(*key))
            found.observed[key] = Observed(obstacle=next(obstacles, "its Service has no VIP"))


def _dial(context: Context, family: Family, vip: str, seconds: float) -> Future[list[Observation]]:
    spacing = seconds / CONNECTIONS
    job = Job(f"VIP {vip} over {family.value}", "tcp", vip, PORT, CONNECTIONS, TIMEOUT, spacing)
    return context.clients.probers[OUTSIDE.name].submit(job)


def _read(
    service: _Dialled, captures: Iterable[Capture], made: Iterable[Observation], ours: set[str], seconds: float
) -> Observed:
    """What the captures show of one Service.

    A health check is a connection to a port of a node from an address that is not the cluster's or a client's, without
    a nonce of ours in it. Others of the cluster may ask kube-proxy; only the load balancer asks a health-check node
    port that nobody else knows.
    """
    answered = {each.nonce for each in made if each.outcome is Outcome.ANSWERED}
    probes: list[Probe] = []
    arrived: dict[str, Destination] = {}
    nodes = []
    for capture in captures:
        nodes.append(capture.node)
        incoming = [each for each in capture.sightings if each.direction == IN]
        named = {(each.source, each.destination) for each in incoming if each.kind == NAMED}
        paths = {(each.source, each.destination): each.nonce for each in incoming if each.kind == ASKED}
        for each in incoming:
            if each.kind == NAMED and each.nonce in answered:
                destination = service.destination(each.destination)
                if destination is not None:
                    arrived.setdefault(each.nonce, destination)
        seen: set[tuple[End, int | str]] = set()
        for each in incoming:
            ends, target = (each.source, each.destination), service.targets.get(each.destination[1])
            if each.kind != REQUEST or target is None or ends in named or (each.source, each.join) in seen:
                continue
            if each.source[0] in ours:
                continue
            seen.add((each.source, each.join))
            probes.append(Probe(each.time, capture.node, each.source[0], target, paths.get(ends, "")))
    return Observed(
        seconds, tuple(nodes), tuple(sorted(probes, key=lambda each: each.at)), len(answered), Counter(arrived.values())
    )
