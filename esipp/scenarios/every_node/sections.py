"""The section on every node: which were asked, what each answered, and how endpoints share connections. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator

from esipp.base.document import Block, Cell, Fold, Section, Table, Text
from esipp.base.plural import counted
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempted, headed, tallied
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.every_node.evidence import (
    CLUSTER,
    HEALTH,
    LISTENER,
    LOCAL,
    PROXY,
    SOME,
    Dialled,
    EveryNodeEvidence,
    by_pod,
)
from esipp.scenarios.every_node.subject import FURTHER, Entrance

TITLE = "Every node"
NODE_PORTS = {LISTENER: "without a Service", CLUSTER: "Cluster", LOCAL: "Local", SOME: "Local, on some nodes"}
MOST_NAMED = 10


def section(run: RecordedRun) -> Section:
    """The section; empty without evidence."""
    seen = run.evidence_of(EveryNodeEvidence) or EveryNodeEvidence()
    return attempted("every-node", TITLE, {"the nodes": lambda: _blocks(seen)} if seen.dialled else {})


def summary(run: RecordedRun) -> Section:
    """Which nodes were asked, and which were not; empty without evidence."""
    seen = run.evidence_of(EveryNodeEvidence)
    return Section("every node", (Text(asked(seen)),) if seen is not None and seen.dialled else ())


def asked(seen: EveryNodeEvidence) -> str:
    """Which nodes were asked and which were not, as text."""
    words = f"{len(seen.sampled)} of {counted(len(seen.nodes), 'node')} asked: {_names(seen.sampled)}"
    left = [node for node in seen.nodes if node not in seen.sampled]
    words += f"; not asked: {_names(left)}" if left else ""
    words += f"; {counted(len(seen.endpoints), 'endpoint')} on {counted(len(set(seen.endpoints.values())), 'node')}"
    bare = [node for node in seen.sampled if not seen.endpoints_on(node, SOME)]
    return words + f", of the Services on some nodes none on {_names(bare)}" if bare else words


def _names(nodes: Iterable[str]) -> str:
    named = list(nodes)
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return ", ".join(named[:MOST_NAMED]) + more or "none"


def _blocks(seen: EveryNodeEvidence) -> Iterator[Block]:
    yield Text(f"{asked(seen)}.")
    for node, why in seen.unasked.items():
        yield Text(f"{node}: {why}.")
    yield Table.of(["node", "endpoints", *NODE_PORTS.values(), "ClusterIP", "health check", "kube-proxy"], _lines(seen))
    yield from headed("Shares of endpoints", [Fold("Connections that each endpoint got", (_shares(seen),))])


def _lines(seen: EveryNodeEvidence) -> Iterator[list[Cell]]:
    for node in seen.sampled:
        own = [row for row in seen.dialled if row.node == node]
        at_ports = [row for row in own if row.entrance in (Entrance.NODE_PORT, *FURTHER)]
        inside = [row for row in own if row.entrance is Entrance.CLUSTER_IP]
        yield [
            node,
            len(seen.endpoints_on(node, LOCAL)),
            *(_answered(row for row in at_ports if row.service == service) for service in NODE_PORTS),
            _answered(inside),
            *(tallied(_said(row for row in own if row.service == service)) for service in (HEALTH, PROXY)),
        ]


def _answered(rows: Iterable[Dialled]) -> str:
    every = list(rows)
    total = sum(row.total for row in every)
    return f"{total - sum(row.lost for row in every)} of {total} answered" if total else ""


def _said(rows: Iterable[Dialled]) -> Counter[str]:
    return sum((row.tally for row in rows), Counter[str]())


def _shares(seen: EveryNodeEvidence) -> Table:
    """The connections of each endpoint, by the kind of target."""
    kinds = dict.fromkeys(
        (row.service, row.entrance, row.protocol, row.family)
        for row in seen.dialled
        if row.service == CLUSTER or row.entrance is Entrance.VIP
    )
    rows = []
    for service, entrance, protocol, family in kinds:
        shares = by_pod(seen.rows(service, entrance, protocol, family))
        rows.append([f"{service} {entrance} {protocol} {family}", *(shares[pod] for pod in seen.endpoints)])
    return Table.of(["Service", *(f"{pod} on {node}" for pod, node in seen.endpoints.items())], rows)


SECTIONS = Sections(section=section, summary=summary)
