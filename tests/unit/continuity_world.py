"""A cluster with steady traffic, simulated: what is done when, pods, health checks, load balancers; all as it must be.

Node ``a`` is the endpoint node, ``c`` the other one with a pod, ``b`` is bare. Everything is deterministic.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

from esipp.checks.check import Feature, Status
from esipp.checks.continuity import NODEPORT, ContinuityCheck, Phase, Way
from esipp.checks.model import Balancer, Family, Outcome
from esipp.checks.stream import StreamKind
from esipp.checks.timing import Checking
from esipp.judging.link_owners import LinkAnswer
from esipp.judging.timeline import Mark, Sample, Steer, Stream
from esipp.judging.topology import parse_address
from esipp.scenarios.continuity.evidence import Asked, ContinuityEvidence, Exchange, Places, Window
from esipp.scenarios.continuity.judge import Judge
from suites.continuity.checks import CHECKS as ALL_CHECKS
from suites.continuity.checks import WAYS
from tests.unit.verdicts import judge_with
from tests.unit.world import FINE

FAMILY = Family.IPV4
CHECKS = [check for check in ALL_CHECKS if check.subject.family is FAMILY]
CLIENT, PROXY, STRANGER = "192.0.2.9", "192.0.2.20", "203.0.113.1"
ADDRESS = {"a": "192.0.2.1", "b": "192.0.2.2", "c": "192.0.2.3"}
SPACING, TIMEOUT = 0.1, 3.0
SINCE, LONG, BETWEEN = 5.0, 22.0, 4.0
PHASES = [phase for phase in Phase if phase is not Phase.QUIET]
BEGAN = {phase: 10.0 + number * (LONG + BETWEEN) for number, phase in enumerate(PHASES)}
END = 10.0 + len(PHASES) * (LONG + BETWEEN)
RETURNED = 9.0
"""Seconds after the policy changes began in which the policy is Local again."""

SERVES, DOWN, UP = 7.0, 2.5, 1.0
"""Seconds for which a pod serves on, and in which a balancer takes a node away after its 503, or back after its 200."""

FEATURES = {name: Feature(True, "") for check in CHECKS for name in check.features}


@cache
def life() -> dict[str, list[tuple[str, float, float, float]]]:
    """Of each node its pods: name, ready from, terminating from, gone at; in order."""
    found = {"a": [["a1", 0.0, 1e9, 1e9]], "c": [["c1", 0.0, 1e9, 1e9]]}

    def end(node: str, at: float) -> None:
        found[node][-1][2:] = [at, at + SERVES + 1.0]
        found[node].append([f"{node}{len(found[node]) + 1}", at + SERVES + 2.0, 1e9, 1e9])

    end("a", BEGAN[Phase.ROLLING_UPDATE] + 0.5)
    end("c", BEGAN[Phase.ROLLING_UPDATE] + 11.5)
    end("a", BEGAN[Phase.DELETED] + 0.5)
    for phase in (Phase.DRAIN, Phase.SPEAKER_MOVES, Phase.NETWORK_AGENT):
        end("a", BEGAN[phase] + 0.5)
    return {node: [tuple(pod) for pod in pods] for node, pods in found.items()}


def unready(at: float) -> bool:
    """Whether the pod of the endpoint node is unready while it runs."""
    flapping = any(BEGAN[Phase.FLAPS] + since <= at < BEGAN[Phase.FLAPS] + until for since, until in ((1, 7), (9, 11)))
    return flapping or BEGAN[Phase.KUBELET] + 2 <= at < BEGAN[Phase.KUBELET] + 12


def pod_at(node: str, at: float) -> tuple[str, bool]:
    """Who serves on a node, and whether it is ready; nobody, if the name is empty."""
    for name, ready, ends, gone in life().get(node, ()):
        if ready <= at < ends:
            return ("", False) if node == "a" and unready(at) else (name, True)
        if ends <= at < gone:
            return name, at < ends + 0.2
    return "", False


def is_cluster(at: float) -> bool:
    """Whether the Local services are Cluster."""
    return BEGAN[Phase.POLICY_CHANGES] + 1 <= at < BEGAN[Phase.POLICY_CHANGES] + 9


def healthy(node: str, at: float) -> bool:
    return pod_at(node, at)[1]


@cache
def view(node: str, down: float) -> list[bool]:
    """Whether a balancer uses a node, every tenth of a second: it follows health checks, both ways with a delay."""
    found, uses, other = [], True, 0.0
    for tenth in range(int(END * 10) + 10):
        other = 0.0 if healthy(node, tenth / 10) is uses else other + 0.1
        if other > (down if uses else UP) - 0.05:
            uses, other = not uses, 0.0
        found.append(uses)
    return found


def used(at: float, down: float) -> list[str]:
    """The nodes that a balancer uses which goes by health checks."""
    return [node for node in "ac" if view(node, down)[int(at * 10 + 0.5)]]


def request(way: Way, seq: int, at: float, down: float = DOWN) -> Sample:
    """What comes of one request."""
    cluster = not way.local or is_cluster(at)
    if cluster:
        nodes = [node for node in "ac" if healthy(node, at)]
        node = nodes[seq % len(nodes)]
        source = ADDRESS["b"]
    elif way.by == NODEPORT:
        node, source = "a", CLIENT
    else:
        nodes = used(at, down) or ["c"]
        nodes = nodes if way.by != Balancer.DEFAULT.value else [n for n in "ac" if pod_at(n, at)[0]][:1]
        node, source = nodes[seq % len(nodes)], PROXY if way.by == Balancer.PROXY.value else CLIENT
    pod = pod_at(node, at)[0]
    if not pod:
        return Sample(seq, at, at + TIMEOUT, "timeout")
    return Sample(seq, at, at + 0.003, "answered", pod, node, source)


def times(spacing: float = SPACING) -> list[tuple[int, float]]:
    return [(seq, 1.0 + seq * spacing) for seq in range(int((END - 1.0) / spacing))]


def marks() -> list[Mark]:
    found = []
    for pods in life().values():
        for name, ready, ends, gone in pods:
            found += [Mark(ready, "ready", name), Mark(ends, "deleting", name), Mark(gone, "gone", name)]
    for phase, moments in ((Phase.FLAPS, ((1, 7), (9, 11))), (Phase.KUBELET, ((2, 12),))):
        for since, until in moments:
            name = next(n for n, ready, ends, _ in life()["a"] if ready <= BEGAN[phase] < ends)
            found += [Mark(BEGAN[phase] + since, "unready", name), Mark(BEGAN[phase] + until, "ready", name)]
    return sorted((mark for mark in found if mark.at < END), key=lambda mark: mark.at)


def window(phase: Phase) -> Window:
    began = BEGAN[phase]
    causes = {Phase.FLAPS: (0.0, 1.0, 7.0, 9.0, 11.0), Phase.KUBELET: (0.0, 2.0, 12.0)}.get(phase, (0.0,))
    policies = phase is Phase.POLICY_CHANGES
    either = ((began + 1.0, began + 10.0),) if policies else ()
    causes = tuple(began + at for at in causes)
    done = Window(phase, began, began + LONG, began + 1, began + 12, causes, either, "done")
    return replace(done, returned=began + RETURNED) if policies else done


def connection(way: Way) -> list[Exchange]:
    """One connection that lasts, made anew when its pod has ended."""
    found: list[Exchange] = []
    number, pod, node = -1, "", ""
    for seq, at in times(0.3):
        ends = next((gone for pods in life().values() for name, _, _, gone in pods if name == pod), 0.0)
        if at >= ends:
            if pod:
                found.append(Exchange((0, number), Sample(seq, at, at + 0.01, "reset"), lost=ends - 0.5))
            first = request(way, 0, at)
            if not first.answered:
                pod = ""
                continue
            number, pod, node = number + 1, first.pod, first.node
        source = PROXY if way.by == Balancer.PROXY.value else CLIENT if way.local else ADDRESS["b"]
        found.append(Exchange((0, number), Sample(seq, at, at + 0.003, "answered", pod, node, source)))
    return found


@cache
def world(down: float = DOWN) -> ContinuityEvidence:
    """Everything as it must be; a balancer may need longer to take a node away than it says."""
    asked = {(check.subject.way, check.subject.stream) for check in CHECKS if check.subject.stream}
    streams = {}
    for way in WAYS:
        streams[way, FAMILY] = frozen(way.slug, [request(way, seq, at, down) for seq, at in times()])
    said = {
        node: Stream(f"health of {node}", SPACING, [Sample(s, at, at, status(node, at)) for s, at in times()])
        for node in "ac"
    }

    def control(node: str) -> Stream:
        return frozen(f"control {node}", [Sample(s, at, at + 0.003, "answered", "", node, CLIENT) for s, at in times()])

    return ContinuityEvidence(
        places=Places("a", "c", "b"),
        streams=streams,
        lasting={(way, FAMILY): connection(way) for way in WAYS},
        control={FAMILY: control("a")},
        others={(node, FAMILY): control(node) for node in "bc"},
        health={FAMILY: said},
        windows=[window(phase) for phase in PHASES],
        marks=marks(),
        nodes={name: node for node, pods in life().items() for name, *_ in pods},
        checking=Checking(1.0, 2, 5.0),
        serves=SERVES,
        own=frozenset({parse_address(CLIENT)}),
        of_nodes=frozenset(map(parse_address, ADDRESS.values())),
        of_balancer=frozenset({parse_address(PROXY)}),
        since=SINCE,
        addresses={node: frozenset({parse_address(own)}) for node, own in ADDRESS.items()},
        sent={(way, FAMILY, kind.name): sent(way, kind) for way, kind in asked},
        owners={(way, FAMILY): owned() for way in WAYS if way.by == Balancer.DEFAULT.value},
        own_links={node: (link_answer(1.0, node),) * 5 for node in ADDRESS},
        joined={(way, FAMILY): joined(way) for way in WAYS if way.by == NODEPORT},
        joined_health={(way, FAMILY): joined_says("503" if way.local else "200") for way in WAYS if way.by == NODEPORT},
    )


def link_answer(at: float, *nodes: str) -> LinkAnswer:
    """These nodes answer on the client's link."""
    return LinkAnswer(at, Outcome.ANSWERED if nodes else Outcome.TIMEOUT, tuple(f"link of {node}" for node in nodes))


def owned() -> list[LinkAnswer]:
    """Node ``a`` has the VIP all the time."""
    return [link_answer(at, "a") for _, at in times(0.3)]


def owned_by(seen: ContinuityEvidence, slug: str, since: float, until: float, *nodes: str) -> ContinuityEvidence:
    """The same, where these nodes have the VIP for a while."""
    told = [link_answer(each.at, *nodes) if since <= each.at < until else each for each in seen.owners[key(slug)]]
    return replace(seen, owners={**seen.owners, key(slug): told})


def while_joined() -> list[tuple[int, float]]:
    """When the node that joins is dialled."""
    began = BEGAN[Phase.JOINED]
    return [(number, began + 0.5 + number * SPACING) for number in range(100)]


def joined(way: Way) -> Stream:
    """What a nodePort of the node that joins answers: nothing, or from 2 s on the pod at a."""
    made = [
        Sample(seq, at, at + TIMEOUT, "timeout")
        if way.local or at < BEGAN[Phase.JOINED] + 2.0
        else Sample(seq, at, at + 0.003, "answered", pod_at("a", at)[0], "a", ADDRESS["b"])
        for seq, at in while_joined()
    ]
    return frozen(f"{way.slug} of the node that joins", made)


def joined_says(status: str) -> Stream:
    """What it says of itself, from 1.5 s on."""
    began = BEGAN[Phase.JOINED] + 1.5
    made = [Sample(seq, at, at, "refused" if at < began else status) for seq, at in while_joined()]
    return frozen("health check of the node that joins", made)


def frozen(name: str, samples: list[Sample]) -> Stream:
    stream = Stream(name, SPACING, samples)
    stream.freeze()
    return stream


def sent(way: Way, kind: StreamKind) -> Stream:
    """Another stream than of TCP connections: it is answered where they are."""
    moments = [(seq, SINCE + seq * (kind.every or 0.2)) for seq in range(kind.count)] or times(kind.every)
    made = [request(way, 0 if kind.keeps_port else seq, at)._replace(seq=seq) for seq, at in moments]
    samples = [each if each.answered else each._replace(ended=each.started + kind.timeout) for each in made]
    stream = Stream(f"{way.slug} {FAMILY.value} {kind.name}", kind.every, samples)
    stream.freeze()
    return stream


def status(node: str, at: float) -> str:
    if is_cluster(at):
        return "refused"
    return "200" if healthy(node, at) else "503"


# ------------------------------------------------------------------------------------------------------------ lies
def key(slug: str) -> Asked:
    return next(way for way in WAYS if way.slug == slug), FAMILY


def moment(phase: Phase, after: float) -> float:
    """A time in a phase; of quiet, before anything was done."""
    return after + (SINCE if phase is Phase.QUIET else BEGAN[phase])


def changed(
    seen: ContinuityEvidence, slug: str, at: float, change: Callable[[Sample], Sample], count: int = 1
) -> ContinuityEvidence:
    """The same, but for so many requests of a way, from a time on."""
    old = seen.streams[key(slug)].samples
    index = next(number for number, sample in enumerate(old) if sample.started >= at)
    made = [change(each) if index <= number < index + count else each for number, each in enumerate(old)]
    return replace(seen, streams={**seen.streams, key(slug): frozen(slug, made)})


def changed_stream(
    seen: ContinuityEvidence,
    slug: str,
    kind: StreamKind,
    since: float,
    until: float,
    change: Callable[[Sample], Sample],
) -> ContinuityEvidence:
    """The same, where some probes of another stream differ."""
    way, _ = key(slug)
    old = seen.sent[way, FAMILY, kind.name]
    made = [change(each) if since <= each.started < until else each for each in old.samples]
    stream = Stream(old.name, old.spacing, made)
    stream.freeze()
    return replace(seen, sent={**seen.sent, (way, FAMILY, kind.name): stream})


def lost(sample: Sample) -> Sample:
    return Sample(sample.seq, sample.started, sample.started + TIMEOUT, "timeout")


def reset(sample: Sample) -> Sample:
    return Sample(sample.seq, sample.started, sample.started + 0.01, "reset")


def steered(seen: ContinuityEvidence, slug: str, *moments: float) -> ContinuityEvidence:
    """The same, where the balancer tells that it changed its routes."""
    steers = [Steer(at, FAMILY.value, ("c",)) for at in moments]
    return replace(seen, steers={**seen.steers, key(slug)[0]: steers})


def controls(seen: ContinuityEvidence, change: Callable[[Sample], Sample], nodes: str = "abc") -> ContinuityEvidence:
    """The same, where the controls of some nodes differ."""

    def made(stream: Stream) -> Stream:
        return frozen(stream.name, [change(sample) for sample in stream.samples])

    others = {key: made(each) if key[0] in nodes else each for key, each in seen.others.items()}
    own = {family: made(each) if "a" in nodes else each for family, each in seen.control.items()}
    return replace(seen, control=own, others=others)


def control_lost(seen: ContinuityEvidence, at: float, nodes: str = "abc") -> ContinuityEvidence:
    """The same, where the controls of some nodes are lost around a time."""
    return controls(seen, lambda s: lost(s) if abs(s.started - at) < 0.25 else s, nodes)


def busy(seen: ContinuityEvidence, at: float, late: float, nodes: str = "abc") -> ContinuityEvidence:
    """The same, where the controls of some nodes are late around a time."""
    return controls(seen, lambda s: s._replace(ended=s.ended + late) if abs(s.started - at) < 0.5 else s, nodes)


def broken(seen: ContinuityEvidence, slug: str, at: float) -> ContinuityEvidence:
    """The same, where a connection that lasts is reset at a time."""
    old = seen.lasting[key(slug)]
    index = next(number for number, each in enumerate(old) if each.sample.started >= at)
    number = old[index].number
    made: list[Exchange] = []
    for position, each in enumerate(old):
        if position == index:
            made.append(Exchange(number, reset(each.sample), lost=at))
        elif position > index and each.number == number:
            made.append(Exchange((1, number[1]), each.sample))
        else:
            made.append(each)
    return replace(seen, lasting={**seen.lasting, key(slug): made})


# ----------------------------------------------------------------------------------------------------------- verdicts
def judged(seen: ContinuityEvidence, checks: Sequence[ContinuityCheck]) -> dict[str, Status]:
    judge = Judge(seen)
    return {check.id: judge_with(check, judge, FEATURES, {}).status for check in checks}


FIELDS = {each.name for each in fields(ContinuityEvidence)}
WHOLE = object()
"""What was read of a field: more than one key of it."""

Reads = dict[str, set[Any]]
"""What was read of evidence: fields, with the keys of those that are mappings."""


class NotedMapping(Mapping[Any, Any]):
    """A mapping that notes its keys as they are read."""

    def __init__(self, found: Mapping[Any, Any], reads: set[Any]) -> None:
        self.found, self.reads = found, reads

    def __getitem__(self, key: Any) -> Any:
        self.reads.add(key)
        return self.found[key]

    def __iter__(self) -> Iterator[Any]:
        self.reads.add(WHOLE)
        return iter(self.found)

    def __len__(self) -> int:
        self.reads.add(WHOLE)
        return len(self.found)


class NotedEvidence(ContinuityEvidence):
    """The healthy world, which notes what a judge reads of it."""

    reads: Reads

    def __init__(self) -> None:
        vars(self).update({name: getattr(world(), name) for name in FIELDS}, reads={})

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name not in FIELDS:
            return value
        reads = self.reads.setdefault(name, set())
        if isinstance(value, Mapping):
            return NotedMapping(value, reads)
        reads.add(WHOLE)
        return value


@cache
def healthy_ways() -> list[tuple[list[ContinuityCheck], Reads, dict[str, Status]]]:
    """Of each way its checks, what the judge reads of the healthy world to decide them, and their verdicts."""
    found = []
    for way in WAYS:
        noted, own = NotedEvidence(), [check for check in CHECKS if check.subject.way == way]
        verdicts = judged(noted, own)
        found.append((own, noted.reads, verdicts))
    return found


def differs(seen: ContinuityEvidence, name: str, keys: set[Any]) -> bool:
    """Whether a field differs from that of the healthy world, in these keys."""
    here, there = getattr(world(), name), getattr(seen, name)
    if here is there:
        return False
    if not isinstance(here, Mapping):
        return True
    if WHOLE in keys and [*here] != [*there]:
        return True
    return any(here.get(key, WHOLE) is not there.get(key, WHOLE) for key in (here if WHOLE in keys else keys))


def statuses(seen: ContinuityEvidence) -> dict[str, Status]:
    """The verdicts on all checks.

    A way is judged again only if something differs that the judge reads of the healthy world to decide its checks: else
    it would read the same again.
    """
    found, anew = dict[str, Status](), list[ContinuityCheck]()
    for own, reads, verdicts in healthy_ways():
        if any(differs(seen, name, keys) for name, keys in reads.items()):
            anew += own
        else:
            found |= verdicts
    found |= judged(seen, anew)
    return {check.id: found[check.id] for check in CHECKS}


def differing(seen: ContinuityEvidence) -> dict[str, Status]:
    """The checks that do not hold."""
    return {name: said for name, said in statuses(seen).items() if said not in FINE}


def check_id(phase: Phase, slug: str, what: str) -> str:
    return f"continuity.{phase.value}.{slug}.ipv4.{what}"
