"""Packet capture of a window: a tap on every agent's node while connections are made of which some are followed."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from esipp.base.errors import HarnessError
from esipp.checks.check import Feature
from esipp.checks.model import BACKENDS, Backends, Protocol
from esipp.checks.observation import Observation, Outcome, Witness
from esipp.checks.required_features import PACKETS
from esipp.ledger.run import Run
from esipp.packets.capture import Capture, End, Scope, Tap
from esipp.packets.trace import Agreement, Change, Trace, Tracer, agree
from esipp.preflight.preflight import Findings
from esipp.probing.prober import Job
from esipp.testbed.clients import Clients
from esipp.testbed.manifests import Numbers
from esipp.testbed.testbed import Testbed

KNOWN_TIMEOUT = 2.0
"""Seconds for a probe of an agent to its own node's listener; a capture without that probe is not trusted."""


_PROTOCOLS = {"http": Protocol.TCP, "tcp": Protocol.TCP, "udp": Protocol.UDP, "sctp": Protocol.SCTP}
"""The protocol of each listener of an echo server."""

Pods = Mapping[Backends, AbstractSet[str]]
"""The names of the pods that answer, by their kind."""


def scope_of(testbed: Testbed, pods: Pods = BACKENDS) -> Scope:
    """The run's own packets: its nodePorts and listeners at any address, its other ports at their addresses."""
    ports: set[tuple[str, int]] = set()
    endpoints: set[tuple[str, str, int]] = set()
    for name, service in testbed.services.items():
        spec = service["spec"]
        addresses = {*(spec.get("clusterIPs") or []), *testbed.vips.get(name, {}).values()} - {"None"}
        for port in spec["ports"]:
            if port.get("nodePort"):
                ports.add((port["protocol"], port["nodePort"]))
            if spec.get("externalIPs"):
                ports.add((port["protocol"], port["port"]))
            endpoints |= {(port["protocol"], address, port["port"]) for address in addresses}
    for listener in testbed.listeners.values():
        ports |= {(protocol.value, port) for protocol, port in listener.items()}
    for (address, port), protocol in _targets(testbed, pods).items():
        endpoints.add((protocol, address, port))
    return Scope(ports, endpoints, payloads=True)


def _targets(testbed: Testbed, pods: Pods) -> dict[End, str]:
    """The backends' own addresses and ports, with the protocol."""
    found: dict[End, str] = {}
    for kind, names in pods.items():
        ports = Numbers.of(testbed.run).backend(kind)
        for name in names & testbed.pods.keys():
            for address in testbed.pods[name].addresses.values():
                found |= {(address, port): _PROTOCOLS[listener].value for listener, port in ports.items()}
    return found


def endpoints_of(testbed: Testbed, pods: Pods = BACKENDS) -> dict[End, str]:
    """The backends and control listeners by address and port, with their nodes."""
    found: dict[End, str] = {}
    for kind, names in pods.items():
        for name in names & testbed.pods.keys():
            pod = testbed.pods[name]
            for address in pod.addresses.values():
                found |= {(address, port): pod.node for port in Numbers.of(testbed.run).backend(kind).values()}
    for node, listeners in testbed.listeners.items():  # a control listener is its own backend
        for address in testbed.nodes[node].internal.values():
            found |= {(address, port): node for port in listeners.values()}
    return found


@dataclass
class Watch:
    """Captures of all nodes with an agent, from ``begin`` to ``end``; it never fails a run.

    ``blind`` says which captures cannot be believed, and why; empty where all can. ``captures`` are those that can.
    ``pods`` are those that answer.
    """

    testbed: Testbed
    clients: Clients
    pods: Pods = field(default_factory=lambda: BACKENDS, kw_only=True)
    captures: list[Capture] = field(default_factory=list)
    blind: str = ""
    traces: dict[tuple[str, int], Trace] = field(default_factory=dict)
    _taps: list[Tap] = field(default_factory=list)
    _known: dict[str, list[Observation]] = field(default_factory=dict)

    def begin(self) -> None:
        """Start a tap on every node, wait until all listen, and send what each must see."""
        scope = scope_of(self.testbed, self.pods)
        for node in sorted(self.clients.agents):
            self._taps.append(Tap(node, self.clients.on_agent(node), scope))
        with ThreadPoolExecutor(max_workers=12) as pool:
            list(pool.map(Tap.listening, self._taps))
        self._send_known()

    def end(self) -> None:
        """Send once more what each tap must see, stop them all, and ask each whether it can be believed."""
        self._send_known()
        with ThreadPoolExecutor(max_workers=12) as pool:
            taken = list(pool.map(Tap.stop, self._taps))
        doubts = {capture.node: capture.blindness(self._known.get(capture.node, ())) for capture in taken}
        self.captures = [capture for capture in taken if not doubts[capture.node]]
        self.blind = "; ".join(doubt for doubt in doubts.values() if doubt)

    def stop(self) -> None:
        """Stop whatever still runs; for the end of a run that was cut short."""
        for tap in self._taps:
            tap.stop()

    def witnesses(self, observations: Mapping[str, Iterable[Observation]]) -> dict[str, list[Witness]]:
        """The witnesses of packets for each fully recorded connection, by path."""
        endpoints = endpoints_of(self.testbed, self.pods)
        tracer = Tracer(self.captures, endpoints)
        seeing = {capture.node for capture in self.captures}
        whole = set(endpoints.values()) <= seeing and not any(capture.dropped for capture in self.captures)
        found: dict[str, list[Witness]] = {}
        for key, made in observations.items():
            for each in made:
                if each.ports or not each.source:
                    continue  # stands for many, or never left its client
                trace = self.traces[key, each.seq] = tracer.trace(each)
                found.setdefault(key, []).append(_witness(each, trace, whole=whole))
        return found

    def unseen(
        self, observations: Mapping[str, Iterable[Observation]], witnesses: Mapping[str, Iterable[Witness]]
    ) -> list[str]:
        """A sentence for each protocol of which the captures show no answered connection, though they show others."""
        answered, shown = Counter[Protocol](), Counter[Protocol]()
        for key, made in observations.items():
            known = {each.seq: each.seen for each in witnesses.get(key, ())}
            for each in made:
                protocol = _PROTOCOLS.get(str((each.echo or {}).get("protocol")))
                if each.seq in known and each.outcome is Outcome.ANSWERED and protocol:
                    answered[protocol] += 1
                    shown[protocol] += known[each.seq]
        return [
            f"no capture shows any of {number} answered connections over {protocol}: only the echo server shows them"
            for protocol, number in sorted(answered.items())
            if not shown[protocol] and shown.total()
        ]

    def _send_known(self) -> None:
        flying = {}
        for node, agent in self.clients.agents.items():
            address = next(iter(self.testbed.nodes[node].internal.values()), None)
            port = self.testbed.listeners.get(node, {}).get(Protocol.TCP)
            if address and port:
                flying[node] = agent.submit(Job(f"known {node}", "tcp", address, port, 1, KNOWN_TIMEOUT))
        for node, future in flying.items():
            with contextlib.suppress(TimeoutError, HarnessError):  # then that capture lacks its proof
                self._known.setdefault(node, []).extend(future.result(timeout=KNOWN_TIMEOUT + 10))


def _say(change: Change) -> str:
    """A change without the ports, which differ from connection to connection."""
    if change.moved:
        return (
            f"{change.node}, between {change.before} and {change.after}: NAT moved the source port of {change.was[0]}"
        )
    return f"{change.node}, between {change.before} and {change.after}: {change.was[0]} became {change.became[0]}"


def _witness(observation: Observation, trace: Trace, *, whole: bool) -> Witness:
    """What a trace testifies; that nothing went to a backend only if every backend's node was watched, without loss."""
    agreement, why = agree(observation, trace)
    if observation.outcome is not Outcome.ANSWERED and trace.delivered is None and not whole:
        agreement = Agreement.UNSEEN
    return Witness(
        observation.path,
        observation.seq,
        seen=agreement is Agreement.AGREED,
        words=trace.said(),
        delivered=trace.delivered,
        change="; ".join(dict.fromkeys(_say(change) for change in trace.changes)),
        contradiction=why if agreement is Agreement.CONTRADICTION else "",
        doubt=trace.apart,
        turned_back=trace.turned_back,
    )


@contextlib.contextmanager
def watched(
    run: Run, findings: Findings, testbed: Testbed, clients: Clients, pods: Pods = BACKENDS
) -> Iterator[Watch | None]:
    """Capture packets if the feature is present; a failed capture never ends the run.

    Args:
        run, findings, testbed, clients: those of the session.
        pods: those that answer, if they are others than those of paths.
    """
    if not findings.features[PACKETS].present:
        yield None
        return
    watch = Watch(testbed, clients, pods=pods)
    try:
        watch.begin()
        yield watch
        watch.end()
    finally:
        watch.stop()
    if watch.blind:
        run.say(f"packets: {watch.blind}")


def found_out(run: Run, findings: Findings, watch: Watch | None) -> None:
    """Record whether the captures of a window could be believed: else the cluster lacks the feature."""
    if watch is None:
        return
    seeing = [capture.node for capture in watch.captures]
    why = watch.blind or f"captures on {', '.join(seeing)} are complete"
    findings.features[PACKETS] = Feature(bool(seeing), why)
    run.feature(PACKETS, findings.features[PACKETS])


def follow(
    run: Run, watch: Watch | None, seen: Mapping[str, Sequence[Observation]]
) -> tuple[dict[str, list[Witness]], str]:
    """The witnesses of each sampled connection from packets, and why there are none, if so."""
    if watch is None:
        return {}, "packet capture is disabled"
    if not watch.captures:
        return {}, watch.blind
    witnesses = watch.witnesses(seen)
    for sentence in watch.unseen(seen, witnesses):
        run.note(PACKETS, sentence)
    return witnesses, watch.blind
