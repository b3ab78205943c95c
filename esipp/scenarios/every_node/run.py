"""The run of this scenario: one window in which every sampled node and every endpoint is asked."""

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Reading
from esipp.checks import health
from esipp.checks.check import LINK_LOCAL, Feature, on_link
from esipp.checks.model import OUTSIDE, Backends, Client, Entry, EntryKind, Family, Outcome, Path, Protocol
from esipp.checks.profile import PROXY_PORT, Target
from esipp.checks.timing import probe_timeout_of
from esipp.judging.link_owners import off_link
from esipp.judging.observation import Observation, contradiction, origin_of
from esipp.judging.topology import Topology, by_family, family_of, parse_address
from esipp.packets.tracking import Reader, Tracking, reachable
from esipp.probing.prober import NOT_ON_LINK, Job, Prober, read_who_has, who_has
from esipp.scenarios.context import Context, Unfinished, kept, spare
from esipp.scenarios.every_node.evidence import (
    AGENT,
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
from esipp.scenarios.every_node.objects import BALANCED_PORTS, HIGHEST, LAST, endpoints, homes, some_of
from esipp.scenarios.every_node.subject import (
    AT_NODES,
    FROM_LINK_LOCAL,
    FURTHER,
    HEALTH_CHECKS,
    QUESTIONS,
    Entrance,
    EveryNode,
    Requires,
    external_ips,
    other_addresses,
    several_announced,
)
from esipp.scenarios.paths.run import (
    ANSWER_TIMEOUT,
    JOBS_AT_ONCE,
    JUDGED_TIMEOUT,
    LINGER,
    PARALLEL,
    PATIENT_TIMEOUT,
    QUICK_LOOKS,
    WAIT_TIMEOUT,
    WAITS,
)
from esipp.testbed.announced import announced
from esipp.testbed.testbed import Testbed

PART = "every node"

SAMPLES = 20
"""Connections to a target. A node that rewrites one in seven is noticed with 95 %; one that always does, always."""

SAMPLED = 2
"""The first connections to each target, which packets follow: so these are of every node, entry and client. Where both
witnesses contradict each other, two are no accident."""

FEW = 3
"""Connections to a port that a node either serves, always, or does not."""

SYNS = 100
"""TCP connections to each nodePort under Cluster, and to each listener. A node that drops one SYN in seven is noticed
with 95 %."""

SHARED = 200
"""Connections in all from which the shares of endpoints are known. Of ten endpoints, none is missed by chance."""

SHARING = (Entrance.NODE_PORT, Entrance.CLUSTER_IP)
"""Where shares are compared, in addition to VIPs."""

ASKED_EVERY = 0.2
"""Seconds between two questions who has an address."""

LOOPBACK = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}

HEALTHY = "/healthz"

Result = Json | Observation
"""What a prober reports: of HTTP requests the line, of connections to echo servers an observation."""

Results = Mapping[Dialled, list[Result]]

PROBED = {HEALTH: Target.HEALTH_CHECK_NODE_PORT, PROXY: Target.KUBE_PROXY}
"""What load balancers ask there."""


def observe(context: Context) -> EveryNodeEvidence | Unfinished:
    """The evidence on every sampled node and every endpoint; unfinished until what must be silent was, for long."""
    run, seen = context.run, EveryNodeEvidence()
    survey = Survey(context, context.topology, context.stop())
    nodes = survey.nodes
    with run.phase(PART, f"{len(nodes)} nodes, {len(survey.own)} endpoints"), kept(PART, run, seen):
        seen = survey.perform()
    spare(context.testbed, seen, [PART])
    if survey.silence is None:
        return seen
    silence = survey.silence

    def finish() -> EveryNodeEvidence:
        waiting = nullcontext() if silence.done() else run.phase(PART, "waiting for an answer that must not come")
        with waiting, kept(PART, run, seen):
            survey.end(seen)
        spare(context.testbed, seen, [PART])
        return seen

    return Unfinished(silence, finish)


@dataclass
class Survey:
    """Asks every sampled node and every endpoint.

    Connections to ``patient`` targets have ``ANSWER_TIMEOUT``, others ``JUDGED_TIMEOUT``. Patient are targets that
    answered while settling, and those that were not part of settling and may answer. ``first`` are the answers of
    settling. ``silence`` are the connections with more patience to targets that must stay silent, once they are made.
    """

    context: Context
    topology: Topology
    stop: Stop = field(default_factory=Stop)
    patient: set[Dialled] = field(default_factory=set)
    first: dict[Dialled, list[Answer]] = field(default_factory=dict)
    silence: "Future[Results] | None" = None
    _made: dict[Dialled, list[Result]] = field(default_factory=dict)

    @property
    def testbed(self) -> Testbed:
        """The run's objects."""
        return self.context.testbed

    @cached_property
    def subjects(self) -> list[EveryNode]:
        """What the selected checks are about."""
        return [check.subject for check in self.context.asked(EveryNode)]

    @cached_property
    def nodes(self) -> list[str]:
        """The sampled nodes that have an agent."""
        return [node for node in self.testbed.sampled if node in self.context.clients.agents]

    @cached_property
    def own(self) -> Mapping[str, str]:
        """The node of each endpoint."""
        return endpoints(self.context.ground)

    def perform(self) -> EveryNodeEvidence:
        """Ask everything once all that must answer does; ``end`` adds what ``silence`` brings.

        Raises:
            HarnessError: a prober is gone.
        """
        testbed, some = self.testbed, some_of(homes(self.context.ground))
        fit = {name: node for name, node in testbed.nodes.items() if node.usable and node.chosen}
        rows = list(self._rows())
        seen = EveryNodeEvidence(
            nodes={name: tuple(node.internal) for name, node in sorted(fit.items())},
            sampled=tuple(self.nodes),
            unasked={node: why for node, why in testbed.absent.items() if node in testbed.sampled},
            endpoints=dict(self.own),
            some=tuple(pod for pod, node in self.own.items() if node in some),
            obstacles={f"{name} {family}": why for (name, family), why in testbed.obstacles.items()},
            gives_up={
                service: probe_timeout_of(testbed.balancer.profiles, target, certain=testbed.balancer.certain)
                for service, target in PROBED.items()
            },
        )
        expected = {row for row in rows if self._must_answer(seen, row)}
        silent = [row for row in rows if self._must_be_silent(seen, row)]
        self._settle([row for row in rows if row in expected])
        self.patient |= {*rows} - expected.union(silent)
        self._made = self._observe(seen, rows, expected, silent)
        seen.dialled = tuple(self._dialled(row) for row in rows)
        self._tell(seen)
        return seen

    def end(self, seen: EveryNodeEvidence) -> None:
        """Add what came of the targets that must stay silent, after at most ``WAIT_TIMEOUT``.

        Raises:
            HarnessError: a prober is gone.
        """
        assert self.silence is not None
        for row, late in self.stop.result(self.silence, self.context.timeouts.job_ends).items():
            self._made[row] += late
        seen.dialled = tuple(self._dialled(row) for row in self._made)

    def _dialled(self, row: Dialled) -> Dialled:
        return replace(row, answers=self._read_all(row, self._made[row]), first=tuple(self.first.get(row, ())))

    # --------------------------------------------------------------------------------------------------- the targets
    def _rows(self) -> Iterator[Dialled]:
        """Every target of the selected checks, with its controls."""
        asked = {(each.protocol, each.family) for each in self.subjects if each.protocol}
        at_nodes = {(each.protocol, each.family) for each in self.subjects if each.entrance in AT_NODES}
        for protocol, family in sorted(asked):
            entrances = {each.entrance for each in self.subjects if (each.protocol, each.family) == (protocol, family)}
            if (protocol, family) in at_nodes:
                yield from self._at_nodes(protocol, family, Entrance.OTHER_ADDRESS in entrances)
            yield from self._at_external_ips(protocol, family)
            if Entrance.LOOPBACK in entrances:
                yield from self._at_loopback(protocol, family)
            if Entrance.SERVICE_PORT in entrances:
                yield from self._at_service_ports(protocol, family)
            if Entrance.CLUSTER_IP in entrances:
                yield from self._at_cluster_ips(protocol, family)
            if Entrance.VIP in entrances:
                yield from self._at_vips(protocol, family)
        for family in Family:
            own = {each.entrance for each in self.subjects if each.family is family}
            own |= {FROM_LINK_LOCAL[entrance] for entrance in own if entrance in FROM_LINK_LOCAL}
            for entrance in sorted(HEALTH_CHECKS):
                service = PROXY if FROM_LINK_LOCAL.get(entrance, entrance) is Entrance.PROXY else HEALTH
                port = PROXY_PORT if service == PROXY else self._health_port() if entrance in own else 0
                for node, address in self._addresses(family) if entrance in own else ():
                    yield Dialled(service, entrance, Protocol.TCP, family, node, address, port, OUTSIDE.name)
            if own & HEALTH_CHECKS and (Protocol.TCP, family) not in at_nodes:
                for node, address in self._addresses(family):
                    yield from self._listener(Entrance.NODE_PORT, Protocol.TCP, family, node, address)

    def _at_nodes(self, protocol: Protocol, family: Family, others: bool) -> Iterator[Dialled]:
        for node, address in self._addresses(family):
            yield from self._listener(Entrance.NODE_PORT, protocol, family, node, address)
            for service in (CLUSTER, LOCAL, SOME):
                port = self._port(service, protocol, 80)["nodePort"]
                yield Dialled(service, Entrance.NODE_PORT, protocol, family, node, address, port, OUTSIDE.name)
            for other in self._others(node, family) if others else ():
                yield from self._listener(Entrance.OTHER_ADDRESS, protocol, family, node, other)
                for service in (CLUSTER, LOCAL):
                    port = self._port(service, protocol, 80)["nodePort"]
                    yield Dialled(service, Entrance.OTHER_ADDRESS, protocol, family, node, other, port, OUTSIDE.name)

    def _at_external_ips(self, protocol: Protocol, family: Family) -> Iterator[Dialled]:
        """Every client outside that checks name dials the ExternalIPs."""
        subjects = (each for each in self.subjects if (each.protocol, each.family) == (protocol, family))
        clients = dict.fromkeys(each.client for each in subjects if each.entrance is Entrance.EXTERNAL_IP)
        for client, node in ((client, node) for client in clients for node in self.nodes):
            if address := self.testbed.nodes[node].external.get(family):
                yield from self._listener(Entrance.EXTERNAL_IP, protocol, family, node, address, client)
                for service in (CLUSTER, LOCAL, SOME):
                    port = self._port(service, protocol, 80)["nodePort"]
                    yield Dialled(service, Entrance.EXTERNAL_IP, protocol, family, node, address, port, client.name)

    def _at_loopback(self, protocol: Protocol, family: Family) -> Iterator[Dialled]:
        """Host processes of every node dial nodePorts at their loopback address."""
        for node in self.nodes:
            for service in (CLUSTER, LOCAL):
                port = self._port(service, protocol, 80)["nodePort"]
                client = f"{AGENT}{node}"
                yield Dialled(service, Entrance.LOOPBACK, protocol, family, node, LOOPBACK[family], port, client)

    def _at_service_ports(self, protocol: Protocol, family: Family) -> Iterator[Dialled]:
        """The last port of Services with a VIP, at addresses of nodes."""
        asked = {each.policy for each in self.subjects if each.entrance is Entrance.SERVICE_PORT and each.policy}
        for policy, (node, address) in itertools.product(sorted(asked), self._addresses(family)):
            name, port = vip_service(policy, protocol), BALANCED_PORTS[policy][1]
            yield Dialled(name, Entrance.SERVICE_PORT, protocol, family, node, address, port, OUTSIDE.name)

    def _at_cluster_ips(self, protocol: Protocol, family: Family) -> Iterator[Dialled]:
        """Host processes of every node dial ClusterIPs, one of them also at the highest port."""
        for service, port in ((CLUSTER, 80), (CLUSTER, HIGHEST), (LOCAL, 80), (SOME, 80)):
            address = by_family(self.testbed.services[service]["spec"].get("clusterIPs") or []).get(family)
            for node in self.nodes if address else ():
                yield Dialled(
                    service, Entrance.CLUSTER_IP, protocol, family, node, address or "", port, f"{AGENT}{node}"
                )

    def _at_vips(self, protocol: Protocol, family: Family) -> Iterator[Dialled]:
        """Every announced address of the family, not only the first one."""
        for policy in sorted({each.policy for each in self.subjects if each.entrance is Entrance.VIP and each.policy}):
            name = vip_service(policy, protocol)
            service = self.testbed.services.get(name)
            given = announced(service) if service else []
            for address in (each for each in dict.fromkeys(given) if family_of(each) is family):
                for port in BALANCED_PORTS[policy]:
                    yield Dialled(name, Entrance.VIP, protocol, family, "", address, port, OUTSIDE.name)

    def _listener(
        self, entrance: Entrance, protocol: Protocol, family: Family, node: str, address: str, client: Client = OUTSIDE
    ) -> Iterator[Dialled]:
        if port := self.testbed.listeners.get(node, {}).get(protocol):
            yield Dialled(LISTENER, entrance, protocol, family, node, address, port, client.name)

    def _addresses(self, family: Family) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if address := self.testbed.nodes[node].internal.get(family):
                yield node, address

    def _others(self, node: str, family: Family) -> list[str]:
        """Further addresses of a node that should serve: InternalIPs, and one in the same network."""
        of = self.testbed.nodes[node]
        found = {address for address in of.addresses if family_of(address) is family}
        if second := self.testbed.second_addresses.get(node, {}).get(family):
            found.add(parse_address(second))
        own = {parse_address(each[family]) for each in (of.internal, of.external) if family in each}
        return sorted(map(str, found - own))

    def _port(self, service: str, protocol: Protocol, port: int) -> Json:
        ports: list[Json] = self.testbed.services[service]["spec"]["ports"]
        return next(each for each in ports if (each["protocol"], each["port"]) == (protocol.value, port))

    def _health_port(self) -> int:
        return int(self.testbed.services[HEALTH]["spec"].get("healthCheckNodePort") or 0)

    def _must_answer(self, seen: EveryNodeEvidence, row: Dialled) -> bool:
        """Whether a target must answer, so that it is waited for; other addresses and listeners need not."""
        if row.entrance in (*FURTHER, *FROM_LINK_LOCAL, Entrance.SERVICE_PORT) or row.service in (LISTENER, PROXY):
            return False
        local = row.service in (LOCAL, SOME)
        return not local or bool(seen.endpoints_on(row.node, row.service))

    def _must_be_silent(self, seen: EveryNodeEvidence, row: Dialled) -> bool:
        """Whether no endpoint may answer at a target: then its silence is waited for."""
        bare = row.service == SOME and not seen.endpoints_on(row.node, SOME)
        return row.entrance is Entrance.SERVICE_PORT or bare

    def _count(self, row: Dialled) -> int:
        """The connections to a target; those that show the shares of endpoints have ``SHARED`` in all.

        A VIP that was silent while all targets were waited for gets few: each of them waits for its timeout, and 24
        such targets outlasted the limit of the whole window.
        """
        if row.entrance is Entrance.SERVICE_PORT:
            return FEW
        counts_syns = row.protocol is Protocol.TCP and row.entrance is Entrance.NODE_PORT
        least = SYNS if counts_syns and row.service in (CLUSTER, LISTENER) else SAMPLES
        if row.service == CLUSTER and row.entrance in SHARING and row.port != HIGHEST:
            return max(least, -(-SHARED // len(self.nodes)))
        vip = row.entrance is Entrance.VIP and row.port not in LAST and row in self.patient
        several = row.service == LOCAL and row.entrance in SHARING and self._several(row.node)
        return SHARED if vip or several else least

    def _several(self, node: str) -> bool:
        return list(self.own.values()).count(node) > 1

    # --------------------------------------------------------------------------------------------------- the dialling
    def _settle(self, expected: Sequence[Dialled]) -> None:
        """Wait until every target that must answer does; what stays silent is judged as it is."""
        looks, silent = itertools.count(), set[Dialled]()

        def look() -> Reading:
            nonlocal silent
            limit = JUDGED_TIMEOUT if next(looks) < QUICK_LOOKS else PATIENT_TIMEOUT
            results = self._dial(expected, lambda _: 1, lambda _: limit, {*expected} - silent)
            made = [replace(row, answers=self._read_all(row, each)) for row, each in results.items()]
            self._keep(made)
            right = [row for row in made if not row.lost]
            self.patient |= {replace(row, answers=()) for row in right}
            silent = {*expected} - {replace(row, answers=()) for row in right}
            wrong = next((row for row in made if row.lost), None)
            state = f"{len(right)} of {len(made)} targets answer"
            return Reading(wrong is None, state + (f", not {wrong.service} at {wrong.where}" if wrong else ""))

        held = self.stop.converge(look, replace(self.context.timeouts.paths_answer, name="every node to answer"))
        self.context.run.record("settled", held=held.held, seconds=round(held.seconds, 3), state=held.state)

    def _keep(self, made: Iterable[Dialled]) -> None:
        """Keep the first answers, equal ones after each other as one."""
        for row in made:
            kept = self.first.setdefault(replace(row, answers=()), [])
            for each in row.answered:
                now = Answer(each.outcome, each.count, each.pod, each.node, each.classes, each.source)
                if kept and replace(kept[-1], count=now.count) == now:
                    now = replace(now, count=kept.pop().count + now.count)
                kept.append(now)

    def _observe(
        self, seen: EveryNodeEvidence, rows: Sequence[Dialled], expected: set[Dialled], silent: Sequence[Dialled]
    ) -> dict[Dialled, list[Result]]:
        """Make the judged connections: those that packets follow first, then the others.

        A target that must stay silent gets some with more patience, which may last longer.
        """
        clients, findings = self.context.clients, self.context.findings
        followed = [row for row in rows if row.entrance not in HEALTH_CHECKS]
        pods = {Backends.POD: frozenset(self.own)}

        def limit(row: Dialled) -> float:
            return ANSWER_TIMEOUT if row in self.patient else JUDGED_TIMEOUT

        asked = self._ask_link(rows)
        beside = ThreadPoolExecutor(1)
        self.silence = beside.submit(self._dial, silent, lambda _: WAITS, lambda _: WAIT_TIMEOUT, set(), brief=False)
        beside.shutdown(wait=False)
        with Reader(reachable(clients.agents, findings.on_node)) as reader:
            with self.context.watched(pods) as watch:
                first = self._dial(followed, lambda _: SAMPLED, limit, expected & self.patient, brief=False)
            self.patient -= {row for row, each in first.items() if not any(map(_is_answer, each))}
            rest = self._dial(
                rows, lambda row: self._count(row) - len(first.get(row, ())), limit, expected & self.patient
            )
            made = {row: [*first.get(row, ()), *rest[row]] for row in rows}
            tables = reader.end()  # at once, as kernels forget
        elsewhere = {row: each for row, each in made.items() if row.entrance is not Entrance.LOOPBACK}
        seen.tracked = Tracking(tables).testify(_observations(elsewhere))  # flows to 127.0.0.1 look alike on all nodes
        patience = self.context.timeouts.job_ends
        told = {
            address: tuple(read_who_has(line) for line in self.stop.result(each, patience))
            for address, each in asked.items()
        }
        vips = {row.address for row in rows if row.entrance is Entrance.VIP}
        seen.has_vip = {address: each for address, each in told.items() if address in vips}
        for family in Family:
            for node, own in self._addresses(family):
                seen.has_own = {**seen.has_own, node: (*seen.has_own.get(node, ()), *told.get(own, ()))}
        seen.witnesses, seen.blind = self.context.follow(watch, _observations(first))
        return made

    def _ask_link(self, rows: Iterable[Dialled]) -> "dict[str, Future[list[Json]]]":
        """Ask the client's link who has the VIPs, and the nodes' own addresses, if checks are about that."""
        families = {each.family for each in self.subjects if each.requires is Requires.ONE_NODE}
        asked = {row.address for row in rows if row.entrance is Entrance.VIP and row.family in families}
        asked |= {address for family in families for _, address in self._addresses(family)}
        prober = self.context.clients.probers.get(OUTSIDE.name)
        return {each: prober.ask(who_has(each, QUESTIONS, ASKED_EVERY)) for each in sorted(asked)} if prober else {}

    def _dial(
        self,
        rows: Iterable[Dialled],
        count: Callable[[Dialled], int],
        limit: Callable[[Dialled], float],
        gated: set[Dialled],
        *,
        brief: bool = True,
    ) -> Results:
        """Dial all targets at the same time.

        Args:
            rows: the targets.
            count: the connections to each.
            limit: seconds that each of them may take.
            gated: targets that answer; a client has a limited number of their jobs in flight. Of silent ones, each
                would hold its place until its timeouts are over.
            brief: whether equal results are combined.
        """
        gates = {client: ThreadPoolExecutor(JOBS_AT_ONCE) for client in {row.client for row in rows}}
        patience = self.context.timeouts.job_ends
        flying: dict[Dialled, Future[list[Result]]] = {}
        try:
            for row in rows:
                job = replace(self._job(row, count(row), limit(row)), brief=brief)
                if row in gated:
                    start = partial(self._start, row, replace(job, parallel=PARALLEL[row.protocol]))
                    flying[row] = gates[row.client].submit(_result, start, patience)
                else:
                    flying[row] = self._start(row, job)
            return {row: self.stop.result(each, patience) for row, each in flying.items()}
        except TimeoutError:
            raise HarnessError(
                f"Timed out after {patience:.0f} s waiting for the probers.", "is a machine overloaded?"
            ) from None
        finally:
            for gate in gates.values():
                gate.shutdown(wait=False, cancel_futures=True)

    def _job(self, row: Dialled, count: int, timeout: float) -> Job:
        asks = row.entrance in HEALTH_CHECKS
        protocol = "get" if asks else row.protocol.value.lower()
        made = Job(row.key, protocol, row.address, row.port, count, timeout)
        if asks:
            return replace(made, url=HEALTHY, link_local=row.entrance in FROM_LINK_LOCAL)
        first_port = zlib.crc32(f"{self.context.run.settings.seed} {row.client}".encode())
        return replace(made, wide=first_port, on_a_node=not row.from_outside, linger=LINGER)

    def _start(self, row: Dialled, job: Job) -> "Future[list[Result]]":
        clients = self.context.clients
        prober: Prober = clients.probers[row.client] if row.from_outside else clients.agents[row.node]
        return cast("Future[list[Result]]", prober.ask(job) if job.protocol == "get" else prober.submit(job))

    def _read_all(self, row: Dialled, results: Iterable[Result]) -> tuple[Answer, ...]:
        """The results at a target, equal ones as one."""
        found: dict[Answer, list[Answer]] = {}
        for each in (self._read(row, result) for result in results):
            found.setdefault(replace(each, count=0, resent=0, copies=0, paired=0, moved=0, took=()), []).append(each)
        return tuple(
            replace(
                kind,
                count=sum(each.count for each in same),
                resent=sum(each.resent for each in same),
                copies=sum(each.copies for each in same),
                paired=sum(each.paired for each in same),
                moved=sum(each.moved for each in same),
                took=tuple(itertools.chain.from_iterable(each.took for each in same)),
            )
            for kind, same in found.items()
        )

    def _read(self, row: Dialled, result: Result) -> Answer:
        if not isinstance(result, Observation):
            said = health.Answer.read(result)
            return Answer(said.outcome, said.count, detail=said.words if said.status else said.detail, took=said.took)
        took = result.took if row.service == LISTENER else ()
        if result.outcome is not Outcome.ANSWERED or result.seen is None:
            return Answer(result.outcome, result.count, detail=result.detail, took=took)
        if lie := contradiction(result):
            return Answer(Outcome.ERROR, result.count, detail=f"the echo server contradicts itself: {lie}")
        pod, node = result.backend or "", result.node or ""
        seconds = result.ended - result.started
        late = f"{pod} answered after {seconds:.0f} s" if result.count == 1 and seconds >= JUDGED_TIMEOUT else ""
        if not row.from_outside:
            return Answer(Outcome.ANSWERED, result.count, pod, node, source=result.seen[0], detail=late)
        path = Path(self.topology.stands[row.client].client, Entry(EntryKind.NODE_PORT), row.protocol, row.family)
        origin = origin_of(self.topology, path, result.seen[0], result.source[0] if result.source else None)
        source = f"{parse_address(result.seen[0])} = {origin.owner}"
        pairs = [pair for pair in result.port_pairs if pair[1] is not None]
        return Answer(
            Outcome.ANSWERED,
            result.count,
            pod,
            node,
            tuple(sorted(origin.classes)),
            source,
            late,
            resent=sum(each.again > 0 for each in result.irregular),
            copies=sum(each.copies for each in result.irregular),
            paired=len(pairs),
            moved=sum(own != shown for own, shown in pairs),
            took=took,
        )

    # --------------------------------------------------------------------------------------------------- the features
    def _tell(self, seen: EveryNodeEvidence) -> None:
        """Say which features only this scenario can find: further addresses of nodes and of VIPs."""
        for family in Family:
            own = [row for row in seen.dialled if row.family is family]
            for entrance, name, noun in (
                (Entrance.OTHER_ADDRESS, other_addresses(family), f"a further {family} address"),
                (Entrance.EXTERNAL_IP, external_ips(family), f"an {family} ExternalIP in addition to its InternalIP"),
            ):
                rows = [row for row in own if (row.service, row.entrance) == (LISTENER, entrance)]
                reached = sorted({row.where for row in rows if row.answered})
                unreached = ", ".join(sorted({row.where for row in rows}))
                clients = " and ".join(sorted({row.client for row in rows}))
                none = f"no sampled node has {noun}"
                none = f"{clients} reaches no listener at {unreached}" if rows else none
                self._feature(name, bool(reached), ", ".join(reached) or none)
            vips = [row for row in own if row.entrance is Entrance.VIP]
            asked = [each for row in vips for each in seen.has_vip.get(row.address, ())]
            if off_link(asked):
                why = f"{OUTSIDE.name} reaches the {family} VIPs through a gateway, not on their link"
                self._feature(on_link(family), False, why)
            several = {row.service: {each.address for each in vips if each.service == row.service} for row in vips}
            most = max(several.values(), key=len, default=set())
            self._feature(
                several_announced(family),
                len(most) > 1,
                f"announced: {', '.join(sorted(most)) or 'no address'}",
            )

        from_there = [row for row in seen.dialled if row.entrance in FROM_LINK_LOCAL]
        if from_there and all(each.detail == NOT_ON_LINK for row in from_there for each in row.answers):
            self._feature(LINK_LOCAL, False, f"{OUTSIDE.name} reaches the nodes through a gateway, not on their link")

    def _feature(self, name: str, present: bool, why: str) -> None:
        if name not in self.context.findings.features or self.context.findings.features[name].present:
            self.context.findings.features[name] = Feature(present, why)
            self.context.run.feature(name, self.context.findings.features[name])


def _result(start: "Callable[[], Future[list[Result]]]", limit: float) -> list[Result]:
    """Start a job and wait for it."""
    return start().result(limit)


def _observations(results: Results) -> dict[str, list[Observation]]:
    return {row.key: [each for each in made if isinstance(each, Observation)] for row, made in results.items()}


def _is_answer(result: Result) -> bool:
    return isinstance(result, Observation) and result.outcome is Outcome.ANSWERED
