"""The run of endpoint changes: all load balancers in parallel, each with its own Service, pods and prober."""

import contextlib
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.base.errors import HarnessError
from esipp.checks.endpoint_change import PROXIES, EndpointChange, What
from esipp.checks.model import OUTSIDE, Balancer, Family
from esipp.cluster.client import ApiError, UnreachableError
from esipp.judging.ingress import held, is_proxy_by_user
from esipp.judging.promise import (
    Promise,
    Threshold,
    promise_of,
    promise_of_reference,
    threshold_of,
    threshold_of_reference,
)
from esipp.judging.topology import family_of
from esipp.ledger.run import Run
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.loadbalancers.timeouts import slowest
from esipp.loadbalancers.views import asked_of
from esipp.preflight.preflight import Findings
from esipp.probing.prober import Prober
from esipp.scenarios.balancer_facts import observed_checks
from esipp.scenarios.changing_pods import Watching, serves_on
from esipp.scenarios.context import Context, perform
from esipp.scenarios.endpoint_change import objects
from esipp.scenarios.endpoint_change.changes import PACE, Driver, Observing, Targets, plan
from esipp.scenarios.endpoint_change.evidence import BalancerEvidence, Bystanders, Moved, Result
from esipp.scenarios.endpoint_change.health_probes import Arrival, ProbeCapture
from esipp.scenarios.endpoint_change.health_probes import observe as observe_probes
from esipp.scenarios.endpoint_change.objects import balancers_of
from esipp.scenarios.endpoint_change.other_nodes import Everywhere
from esipp.scenarios.endpoint_change.reported_state import NOTHING, ReferenceState, Reported, polled_state
from esipp.scenarios.endpoint_change.sections import REPORTED
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed.clients import Clients
from esipp.testbed.refusals import hint_for
from esipp.testbed.testbed import Testbed

OF_BALANCE = (What.BALANCE, What.VIEW_LOCAL, What.VIEW_CLUSTER)
"""What is seen only while two nodes have pods after all changes."""

MOST_NODES = 6
"""The most nodes that are probed all the time: those with endpoint changes, and a few others."""


@dataclass
class Gathering:
    """Makes the endpoint changes, and collects the evidence.

    ``reported`` is the state that load balancers report; ``promise`` and ``threshold`` are those of the cluster's own
    one, ``proxy`` whether ``--provider`` says that it is a proxy, ``others`` is every known address of a node, a pod or
    a client.
    ``bystanders`` are the answers of nodes without endpoint changes, for the first Service; ``uncertainty`` is that of
    the prober's clock, in seconds; ``balance`` whether a check asks for the balance, or for health views beside it.
    ``timeouts``: how long each wait may take.
    """

    testbed: Testbed
    clients: Clients
    image: str
    balancers: Sequence[Balancer]
    moves: int
    seed: int
    packets: bool
    reported: Reported = NOTHING
    promise: Promise = field(default_factory=Promise)
    threshold: Threshold = field(default_factory=Threshold)
    others: frozenset[str] = frozenset()
    proxy: bool = False
    uncertainty: float = 0.0
    balance: bool = True
    timeouts: Timeouts = TIMEOUTS
    heard: str = "packets were not captured"
    bystanders: Bystanders | None = None
    results: dict[Balancer, Result] = field(default_factory=dict)
    drivers: dict[Balancer, Driver] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, run: Run) -> None:
        """Make all endpoint changes; there is one result for each load balancer.

        Raises:
            HarnessError: something of ours failed.
        """
        ready, obstacles = self._reachable()
        watching = Watching(
            self.testbed.cluster,
            self.testbed.namespace,
            {each.value: objects.service_name(each) for each in self.balancers},
        )
        with contextlib.ExitStack() as stack:
            stack.callback(watching.stop)
            probers = {balancer: self._prober(balancer, stack) for balancer in ready}  # start side by side
            targets = {balancer: self._targets(objects.service_name(balancer)) for balancer in ready}
            polls = self._polls(targets)
            ours = set(map(str, self.clients.addresses(OUTSIDE.name))) | self._asking(polls)
            capture = ProbeCapture(
                self.clients, {each.health_port: objects.service_name(of) for of, each in targets.items()}, ours
            )
            stack.callback(capture.stop)
            if self.packets and targets:
                capture.begin()
                self.heard = capture.trouble
            observing = {each: self._observing(each, probers[each], targets[each]) for each in ready}
            stack.callback(polls.stop)
            polls.start()
            stack.enter_context(self.reported.listening())
            self.drivers = drivers = {each: self._driver(each, observing[each], watching) for each in ready}
            perform(
                run, "endpoint changes", {each.value: driver.drive for each, driver in drivers.items()}, self._stopped
            )
            watching.check()
            self.reported.look(drivers)
            for each in observing.values():
                each.stop()
            polls.stop()
            if observing:
                self.bystanders = polls.answers(next(iter(observing.values())).name)
            self._let_go(drivers)
            self.reported.check()
            arrivals = {}
            if self.packets and observing:
                arrivals, self.heard = capture.end(), capture.trouble
        for balancer in self.balancers:
            if balancer in obstacles:
                self.results[balancer] = Result(balancer, BalancerEvidence({}, {}, {}), obstacle=obstacles[balancer])
            else:
                heard = arrivals.get(objects.service_name(balancer), [])
                self.results[balancer] = self._result(drivers[balancer], heard)

    @property
    def evidence(self) -> Moved:
        """What was observed so far."""
        results = {each: self._result(driver, ()) for each, driver in self.drivers.items()} | self.results
        polls = {balancer: found for balancer in results if (found := self.reported.polls(balancer))}
        others = self.bystanders if self.bystanders and self.bystanders.asked else None
        return Moved(results, PACE.every, PACE.timeout, self.heard, others, polls)

    def _let_go(self, balancers: Collection[Balancer]) -> None:
        """Delete the Cluster Services, and check that their VIPs are released."""
        names = {balancer: objects.cluster_service_name(balancer) for balancer in balancers}
        there = {balancer: name for balancer, name in names.items() if name in self.testbed.services}
        try:
            for name in there.values():
                self.testbed.cluster.delete(f"/api/v1/namespaces/{self.testbed.namespace}/services/{name}")
        except (ApiError, UnreachableError) as broken:
            raise HarnessError(
                f"The API server did not delete a Service after the endpoint changes: {broken}.",
                hint_for(broken) if isinstance(broken, ApiError) else "run again.",
            ) from None
        if there:
            self.reported.look_again(there)

    def _reachable(self) -> tuple[list[Balancer], dict[Balancer, str]]:
        """The load balancers with a VIP, and why the others have none."""
        obstacles = {}
        for balancer in self.balancers:
            name = objects.service_name(balancer)
            if not self.testbed.vips.get(name):
                why = (text for (service, _), text in self.testbed.obstacles.items() if service == name)
                obstacles[balancer] = next(why, "its Service has no VIP")
        return [balancer for balancer in self.balancers if balancer not in obstacles], obstacles

    def _prober(self, balancer: Balancer, stack: contextlib.ExitStack) -> Prober:
        """Start a prober in the place of the client outside, for one Service."""
        prober = self.clients.another(OUTSIDE.name, objects.service_name(balancer))
        stack.callback(prober.close)
        return prober

    def _observing(self, balancer: Balancer, prober: Prober, targets: Targets) -> Observing:
        """Have a prober probe the Service all the time."""
        prober.hello()
        clock = prober.clock()
        self.uncertainty = max(self.uncertainty, clock.uncertainty)
        observing = Observing(objects.service_name(balancer), prober, targets, clock)
        observing.start()
        return observing

    def _targets(self, name: str) -> Targets:
        spec = self.testbed.services[name]["spec"]
        vips = self.testbed.vips[name]
        slots = objects.slots_of(self.testbed.roles)
        nodes = [*slots, *(node for node in self._fit(vips) if node not in slots)][:MOST_NODES]
        addresses = {node: self.testbed.nodes[node].internal for node in nodes}
        return Targets(vips, addresses, spec["ports"][0]["nodePort"], spec["healthCheckNodePort"])

    def _polls(self, of_each: Mapping[Balancer, Targets]) -> Everywhere:
        """The health check of one Service at the nodes that are not probed all the time, in its first family."""
        if not of_each:
            return Everywhere({}, {}, 0)
        targets = next(iter(of_each.values()))
        family = next(iter(targets.vips))
        others = sorted(set(self._fit(targets.vips)) - set(targets.nodes))
        addresses = {node: self.testbed.nodes[node].internal[family] for node in others}
        return Everywhere(self.clients.agents, addresses, targets.health_port)

    def _asking(self, polls: Everywhere) -> set[str]:
        """The addresses of agents that probe health checks; they are not a load balancer's."""
        asking = self.clients.agents if polls.nodes else ()
        return {address for node in asking for address in self.testbed.nodes[node].internal.values()}

    def _fit(self, families: Collection[Family]) -> list[str]:
        """The nodes that can be probed in these families; those of the sample come first."""
        there = (node for node in self.testbed.nodes.values() if node.usable and node.chosen)
        fit = (node.name for node in there if set(families) <= node.internal.keys())
        return sorted(fit, key=lambda name: (name not in self.testbed.sampled, name))

    def _driver(self, balancer: Balancer, observing: Observing, watching: Watching) -> Driver:
        testbed, seed = self.testbed, f"{self.seed} {balancer.value}"
        nodes = objects.slots_of(testbed.roles)
        own, patience = balancer is Balancer.DEFAULT, testbed.patience  # the reference's ways are not the cluster's
        reported, promise = self.reported.checking(balancer), self._promise(balancer)
        known = [each for each in (reported.bound, promise.seconds, patience.steering if own else None) if each]
        return Driver(
            testbed.cluster,
            testbed.namespace,
            testbed.run,
            self.image,
            balancer,
            nodes,
            plan(seed, len(nodes), self.moves),
            seed,
            observing,
            watching,
            self.reported.decisions(balancer),
            self._stopped,
            period=reported.period or 0.5,
            bound=max(known, default=None),
            serves=serves_on(testbed.steering),
            timeouts=self.timeouts.answering(patience.answering) if own else self.timeouts,
            spreads=promise.spreads is True,
            single=promise.spreads is False,
            balance=self.balance,
            patience=0.0 if promise.known else slowest(all_profiles()),
        )

    def _result(self, driver: Driver, arrivals: Sequence[Arrival]) -> Result:
        balancer = driver.balancer
        result = Result(
            balancer,
            driver.seen,
            driver.changes,
            {change.number: time.monotonic() for change in driver.changes}
            | driver.ends,  # an interrupt leaves one open
            [(driver.first_pod, float("-inf")), *driver.opened_last.items()],
            self._sources(balancer),
            own_addresses(self.clients),
            self.reported.checking(balancer),
            counted=driver.counted,
            views=self.reported.views(balancer),
            obstacle=driver.obstacle,
            planned=sum((step.up is not None) + (step.down is not None) for step in driver.steps),
            promise=self._promise(balancer),
            threshold=self._threshold(balancer),
            uncertainty=self.uncertainty,
            others=self.others,
            proxy=self.proxy,
        )
        return result.with_observed(observe_probes(arrivals, result.timelines()))

    def _promise(self, balancer: Balancer) -> Promise:
        """How fast a balancer has to follow; of the reference one, an instrument, by what we started it with."""
        if balancer is Balancer.DEFAULT:
            return self.promise
        return promise_of_reference(self.reported.settings())

    def _threshold(self, balancer: Balancer) -> Threshold:
        """After how many failed health checks a balancer leaves a node."""
        own = balancer is Balancer.DEFAULT
        return self.threshold if own else threshold_of_reference(self.reported.settings())

    def _sources(self, balancer: Balancer) -> dict[Family, frozenset[str]]:
        """The source addresses that pods may see through the VIP: the client's, or a proxy's own."""
        if balancer in PROXIES:
            return self.reported.addresses()
        return own_addresses(self.clients)


def own_addresses(clients: Clients) -> dict[Family, frozenset[str]]:
    """The addresses of the client outside, by family."""
    addresses = clients.addresses(OUTSIDE.name)
    return {family: frozenset(str(each) for each in addresses if family_of(each) is family) for family in Family}


def observe(context: Context) -> Moved:
    """The results of all endpoint changes, for each load balancer."""
    run, testbed, findings, settings = context.run, context.testbed, context.findings, context.run.settings
    checks = context.asked(EndpointChange)
    gathering = Gathering(
        testbed, context.clients, settings.image, balancers_of(checks),
        settings.moves, settings.seed, findings.features["packets"].present,
        reported_by(findings, testbed),
        promise_of(testbed.balancer.profiles, sure=testbed.balancer.named, bound=settings.bound),
        threshold_of(testbed.balancer.profiles, certain=testbed.balancer.certain),
        frozenset(map(str, held(context.topology))), is_proxy_by_user(findings.facts),
        balance=any(check.subject.what in OF_BALANCE for check in checks), timeouts=context.timeouts,
    )  # fmt: skip
    context.gathered = lambda: gathering.evidence
    names = ", ".join(each.value for each in gathering.balancers)
    with run.phase("endpoint changes", f"{settings.moves} up and {settings.moves} down: {names}; seed {settings.seed}"):
        gathering.run(run)
        own, others = gathering.results.get(Balancer.DEFAULT), gathering.bystanders
        if own is not None:
            observed_checks(run, testbed.balancer, own.observed.checking)
        if others is not None and others.finding:
            run.note("health checks", others.finding)
        lines = [*gathering.reported.lines(gathering.results), *(others.lines() if others else [])]
        if lines:
            run.note(REPORTED, "; ".join(line.strip() for line in lines).replace(":; ", ": "))
    return gathering.evidence


def reported_by(findings: Findings, testbed: Testbed) -> Reported:
    """The source of reported state: the reference load balancer, or a cloud's load balancer, which must be polled."""
    nodes = testbed.nodes.values()
    if findings.reference:
        return ReferenceState(findings.reference, testbed.namespace, nodes)
    return polled_state(
        asked_of(nodes, findings.balancer.named_profile), testbed.cluster, testbed.namespace, testbed.services, nodes
    )
