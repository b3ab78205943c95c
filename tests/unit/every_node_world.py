"""What a small cluster answers at every node where all is well: for the judge, never a stand-in for Kubernetes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from esipp.checks.check import Feature, Verdict
from esipp.checks.model import AddressClass, Family, Outcome, Protocol, TrafficPolicy
from esipp.checks.timing import GIVES_UP, Bound
from esipp.judging.link_owners import LinkAnswer
from esipp.scenarios.every_node.evidence import (
    CLUSTER,
    HEALTH,
    LISTENER,
    LOCAL,
    PROXY,
    SOME,
    Answer,
    Dialled,
    EveryNodeEvidence,
    vip_service,
)
from esipp.scenarios.every_node.objects import endpoints, homes, some_of
from esipp.scenarios.every_node.subject import QUESTIONS, Entrance
from esipp.testbed.objects import Ground
from suites.nodes.checks import CHECKS as ALL_CHECKS
from tests.unit.verdicts import judge_with
from tests.unit.world import ROLES

CHECKS = {check.id: check for check in ALL_CHECKS}
FEATURES = {name: Feature(True, "made up") for check in ALL_CHECKS for name in check.features}
CLIENT, NODE = (AddressClass.CLIENT,), (AddressClass.NODE,)
NOTHING: Mapping[str, str] = {}
SILENCE = Answer(Outcome.TIMEOUT, 20)
SOON = 0.003


def ground(nodes: int) -> Ground:
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    roles = dict(zip(ROLES, [*names[:3], names[-1]][:3], strict=False))
    return Ground("r1", "image", {}, roles, FEATURES, sampled=tuple(names))


def of_link(*nodes: str) -> LinkAnswer:
    """These nodes answer on the client's link."""
    links = tuple(f"02:00:00:00:00:{node.rpartition('-')[2]:>02}" for node in nodes)
    return LinkAnswer(1.0, Outcome.ANSWERED if nodes else Outcome.TIMEOUT, links)


def answered(pod: str, node: str, classes: tuple[AddressClass, ...] = CLIENT, count: int = 20) -> Answer:
    source = f"192.0.2.1 = {classes[0] if classes else ''}"
    return Answer(Outcome.ANSWERED, count, pod, node, classes, source, paired=count)


def shared(
    own: dict[str, str], pods: Iterable[str], classes: tuple[AddressClass, ...], total: int = 20
) -> tuple[Answer, ...]:
    """Equal shares of some endpoints."""
    these = list(pods)
    counts = [total // len(these) + (at < total % len(these)) for at in range(len(these))]
    return tuple(answered(pod, own[pod], classes, count) for pod, count in zip(these, counts, strict=True))


def seen(nodes: int = 5) -> EveryNodeEvidence:
    """All is well on a cluster of so many nodes."""
    return replace(_undialled(nodes), dialled=_all_dialled(nodes))


@cache
def _all_dialled(nodes: int) -> tuple[Dialled, ...]:
    return tuple(replace(row, first=_first(row)) for row in _dialled(_undialled(nodes)))


def _undialled(nodes: int) -> EveryNodeEvidence:
    of = ground(nodes)
    own, some = endpoints(of), some_of(homes(of))
    return EveryNodeEvidence(
        nodes=dict.fromkeys(of.sampled, tuple(Family)),
        sampled=of.sampled,
        endpoints=own,
        some=tuple(pod for pod, node in own.items() if node in some),
        gives_up=dict.fromkeys((HEALTH, PROXY), Bound(GIVES_UP, "the default")),
        has_vip=dict.fromkeys(("192.0.2.10", "192.0.2.11"), (of_link("node-1"),) * QUESTIONS),
        has_own={node: (of_link(node),) * QUESTIONS for node in of.sampled},
    )


def _first(row: Dialled) -> tuple[Answer, ...]:
    """Three answers before the judged window."""
    return tuple(replace(each, count=3) for each in row.answered[:1])


def _dialled(known: EveryNodeEvidence) -> Iterator[Dialled]:
    own = dict(known.endpoints)
    for protocol in Protocol:
        for family in Family:
            for at, node in enumerate(known.sampled, 1):
                for entrance, address, client in (
                    (Entrance.NODE_PORT, f"10.0.0.{at}", "outside-1"),
                    (Entrance.OTHER_ADDRESS, f"10.9.0.{at}", "outside-1"),
                    (Entrance.EXTERNAL_IP, f"203.0.113.{at}", "outside-1"),
                    (Entrance.EXTERNAL_IP, f"203.0.113.{at}", "outside-routed"),
                ):
                    row = Dialled(LISTENER, entrance, protocol, family, node, address, 40000, client)
                    yield replace(row, answers=(replace(answered("agent", node, count=100), took=(SOON,) * 100),))
                    yield replace(row, service=CLUSTER, answers=shared(own, own, NODE, 200))
                    for service in (LOCAL, SOME):
                        pods = known.endpoints_on(node, service)
                        answers = shared(own, pods, CLIENT, 200) if pods else (SILENCE,)
                        if entrance is not Entrance.OTHER_ADDRESS or service == LOCAL:
                            yield replace(row, service=service, answers=answers)
                loopback = Dialled(
                    CLUSTER, Entrance.LOOPBACK, protocol, family, node, "127.0.0.1", 30000, f"the agent on {node}"
                )
                yield replace(loopback, answers=shared(own, own, ()))
                yield replace(loopback, service=LOCAL, answers=shared(own, own, ()))
                service_port = Dialled(
                    vip_service(TrafficPolicy.LOCAL, protocol),
                    Entrance.SERVICE_PORT,
                    protocol,
                    family,
                    node,
                    f"10.0.0.{at}",
                    65535,
                    "outside-1",
                )
                yield replace(service_port, answers=(Answer(Outcome.REFUSED, 20),))
                inside = Dialled(
                    CLUSTER, Entrance.CLUSTER_IP, protocol, family, node, "10.96.0.1", 80, f"the agent on {node}"
                )
                yield replace(inside, answers=shared(own, own, (), 200))
                for service in (LOCAL, SOME):
                    pods = known.endpoints_on(node, service)
                    yield replace(inside, service=service, answers=shared(own, pods, (), 200) if pods else (SILENCE,))
            for policy, classes in ((TrafficPolicy.CLUSTER, NODE), (TrafficPolicy.LOCAL, CLIENT)):
                for address in ("192.0.2.10", "192.0.2.11"):
                    row = Dialled(
                        vip_service(policy, protocol), Entrance.VIP, protocol, family, "", address, 80, "outside-1"
                    )
                    yield replace(row, answers=shared(own, own, classes, 200))
    for family in Family:
        for at, node in enumerate(known.sampled, 1):
            row = Dialled(PROXY, Entrance.PROXY, Protocol.TCP, family, node, f"10.0.0.{at}", 10256, "outside-1")
            yield replace(row, answers=(Answer(Outcome.ANSWERED, 20, detail="200", took=(SOON,) * 20),))
            status = "200" if known.endpoints_on(node, HEALTH) else "503"
            row = replace(row, service=HEALTH, entrance=Entrance.HEALTH)
            yield replace(row, answers=(Answer(Outcome.ANSWERED, 20, detail=status, took=(SOON,) * 20),))
            if family is Family.IPV6:
                row = replace(row, entrance=Entrance.LINK_LOCAL_HEALTH)
                yield replace(row, answers=(Answer(Outcome.ANSWERED, 20, detail=status),))
                row = replace(row, service=PROXY, entrance=Entrance.LINK_LOCAL_PROXY, port=10256)
                yield replace(row, answers=(Answer(Outcome.ANSWERED, 20, detail="200"),))


def changed(
    known: EveryNodeEvidence, hit: Callable[[Dialled], bool], change: Callable[[Dialled], tuple[Answer, ...]]
) -> EveryNodeEvidence:
    """The same evidence with other answers at some targets."""
    return replace(
        known, dialled=tuple(replace(row, answers=change(row)) if hit(row) else row for row in known.dialled)
    )


def verdicts(
    known: EveryNodeEvidence, facts: Mapping[str, str] = NOTHING, features: Mapping[str, Feature] = FEATURES
) -> dict[str, Verdict]:
    return {name: judge_with(check, known, features, facts) for name, check in CHECKS.items()}
