"""The judge of path checks: from observations and topology to a decision. Pure: it can re-judge an old run.

The order of questions is the order of trust. Does the check apply here? Is the harness sound? Do both witnesses agree?
Do the controls hold? What did the backend see? Which connections does a known difference excuse, by their evidence?
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from esipp.checks.check import Level, Status, unproven_at_vips
from esipp.checks.connections import ConnectionsCheck, OnConnections
from esipp.checks.ingress import facts_at
from esipp.checks.known_differences import Connections, Proof
from esipp.checks.model import NO_ANSWER, AddressClass, Claim, EntryKind, Outcome, Path, TrafficPolicy, Vantage
from esipp.checks.path import Control, OnPath, PathCheck, Spread
from esipp.judging.answers import say_bound, say_observed
from esipp.judging.controls import MOSTLY_CONTROL
from esipp.judging.frame import Decision, few
from esipp.judging.ingress import held, in_doubt, is_proxy_by_user, why_not_its_own
from esipp.judging.observation import (
    NOTHING_TRACKED,
    Observation,
    Reading,
    reported_address,
    say_delivered,
    say_witnesses,
)
from esipp.judging.scenario import RunThen, Scenario, Typical, by_subject
from esipp.judging.statistics import at_least_p
from esipp.judging.topology import IPAddress, Topology, family_of, parse_address
from esipp.scenarios.paths.connections import decide_connections, diagnose_connections
from esipp.scenarios.paths.diagnosis import diagnose as diagnose_path
from esipp.scenarios.paths.evidence import Evidence, Window, evidence_of, window_of, with_known

UNKNOWN_SOURCES = frozenset({AddressClass.LOAD_BALANCER, AddressClass.OTHER})
"""Classes of a proxy's own address: a VIP, or an unknown address."""


@dataclass(frozen=True)
class Cover:
    """The observations that a known difference covers, in their order, and the evidence for it as text.

    ``alone`` are those that only its special evidence covers, and no class that it accepts.
    """

    covered: Sequence[bool]
    alone: Sequence[bool]
    words: str = ""

    @property
    def whole(self) -> bool:
        """Whether it covers all of them."""
        return all(self.covered)


def cover(subject: OnPath, excused: Connections, evidence: Evidence) -> Cover:
    """The observations of a check's own path that a known difference covers."""
    readings, made = evidence.readings(subject.path), evidence.observations.get(subject.path.key, ())
    special = _Special(subject, excused, evidence)
    fits = [special.fits(each, seen) for each, seen in zip(readings, made, strict=True)]
    alone = [not fit and special.explains(each, seen) for each, seen, fit in zip(readings, made, fits, strict=True)]
    covered = [fit or other for fit, other in zip(fits, alone, strict=True)]
    return Cover(covered, alone, "; ".join(dict.fromkeys(special.said)))


class _Special:
    """The evidence that a known difference requires, held against single observations."""

    def __init__(self, subject: OnPath, excused: Connections, evidence: Evidence) -> None:
        self.subject, self.excused, self.evidence = subject, excused, evidence
        self.said: list[str] = []
        self._balancers = self._own_addresses() if excused.proof is Proof.BALANCER else frozenset()
        self._turned_back = excused.turned_back and self._came_back()

    def fits(self, reading: Reading, seen: Observation) -> bool:
        """Whether the difference accepts the source's class, and, if it names an address, that very address."""
        sound = not reading.product_fault and not reading.harness_fault
        if not sound or not reading.classes & self.excused.accept:
            return False
        if self.excused.proof is Proof.OWN_NODE:
            return seen.seen is not None and parse_address(seen.seen[0]) in self._own_node()
        if self.excused.proof is Proof.FACT:
            name = f"{self.excused.names}.{self.subject.path.family.value.lower()}"
            named = self.evidence.facts.get(name)
            return bool(named) and seen.seen is not None and parse_address(seen.seen[0]) == parse_address(str(named))
        return True

    def explains(self, reading: Reading, seen: Observation) -> bool:
        """Whether the connection itself shows what the difference describes."""
        known = self.excused
        return (
            (known.forwarded and reading.misdirected)
            or (known.proof is Proof.BALANCER and self._by_the_balancer(reading, seen))
            or (known.resets and reading.reset and self._rerouted(seen))
            or (known.hangs and reading.hung and self._shared(seen))
            or (known.collides and self._collided(seen))
            or (self._turned_back and seen.outcome is Outcome.TIMEOUT and seen.connected is None)
        )

    def _own_node(self) -> frozenset[IPAddress]:
        """The addresses of the client's own node."""
        stand = self.evidence.topology.stands.get(self.subject.path.client.name)
        node = self.evidence.topology.nodes.get(stand.node) if stand and stand.node else None
        return node.addresses if node else frozenset()

    # ---------------------------------------------------------------------------------------------- a proxy's address
    def _own_addresses(self) -> frozenset[str]:
        """The addresses that can belong to the Service's load balancer, by all connections through its VIP."""
        evidence, path = self.evidence, self.subject.path
        if path.client.vantage is Vantage.OUTSIDE and evidence.preserved_at(path):
            return frozenset()  # a proxy shows its own address to all of them
        others = held(evidence.topology) | evidence.clients
        sources = {at: n for at, n in evidence.sources_at(path).items() if parse_address(at) not in others}
        if why_not_its_own(sources, others, is_proxy=is_proxy_by_user(evidence.facts)):
            return frozenset()
        shown = ", ".join(sorted(sources)[:3])
        self.said.append(f"the Service's pods saw {shown} in {sum(sources.values())} connections")
        return frozenset(sources)

    def _by_the_balancer(self, reading: Reading, seen: Observation) -> bool:
        sound = not reading.product_fault and not reading.harness_fault
        of_it = seen.seen is not None and seen.seen[0] in self._balancers
        return sound and of_it and reading.classes <= UNKNOWN_SOURCES

    # ------------------------------------------------------------------------------------------- single connections
    def _rerouted(self, seen: Observation) -> bool:
        """Whether the routes of this Service changed while each of the connections was open."""
        path, ahead = self.subject.path, self.evidence.clocks.get(self.subject.path.client.name)
        if ahead is None or not seen.spans or len(seen.spans) != seen.count:
            return False
        of = [each for each in self.evidence.steers if (each.service, each.family) == (path.object_name, path.family)]
        found = [next((s for s in of if began <= s.at + ahead <= ended), None) for began, ended in seen.spans]
        if None in found:
            return False
        self.said += [f"the routes of {path.object_name} changed while {len(found)} connections were open"]
        return True

    def _shared(self, seen: Observation) -> bool:
        """Whether a connection through another Service had the address and port of a hung one, as packets show."""
        if seen.count > 1:
            return False
        witnesses = self.evidence.witnesses.get(self.subject.path.key, ())
        came = next((each.delivered for each in witnesses if each.seq == seen.seq and not each.doubt), None)
        words = self.evidence.ports.shared(self.subject.path, came, seen) if came else ""
        self.said += [words] if words else []
        return bool(words)

    def _came_back(self) -> bool:
        """Whether the path's lost connections are those that a load balancer sent back to the client's own node.

        Every lost connection of this path that packets show must have come back there. If they show none, as they
        follow only a few, one of this client at another VIP of the same load balancer must have. No answer may have
        come by way of that node. And no more connections may be lost than by chance go to one of so many nodes.
        """
        path, evidence = self.subject.path, self.evidence
        stand, made = evidence.topology.stands.get(path.client.name), evidence.observations.get(path.key, ())
        lost = {each.seq for each in made if each.outcome is Outcome.TIMEOUT and not each.ports}  # not those in groups
        shown = [each for each in evidence.witnesses.get(path.key, ()) if each.seq in lost and not each.doubt]
        if stand is None or any(each.turned_back != stand.node for each in shown):
            return False
        if not shown and stand.node not in evidence.turned_back_at(path):
            return False
        ways = {self._way(each) for each in made if each.outcome is Outcome.ANSWERED}
        if stand.node in ways:
            return False
        total = sum(each.count for each in made)
        number = sum(each.count for each in made if each.outcome is Outcome.TIMEOUT)
        whose = f"{len(shown)} of {number} lost connections" if shown else "lost connections at other VIPs"
        self.said.append(f"packets of {whose} came back to node {stand.node}")
        return at_least_p(number, total, 1 / (len(ways) + 1)) >= RARELY

    def _way(self, answered: Observation) -> str:
        """The node that the load balancer chose: under Local the backend's, else the one whose address the pod saw."""
        path, topology = self.subject.path, self.evidence.topology
        if path.service is not None and path.service.policy is TrafficPolicy.LOCAL:
            return answered.node or ""
        seen = parse_address(answered.seen[0]) if answered.seen else None
        return next((name for name, node in topology.nodes.items() if seen in node.addresses), "")

    def _collided(self, seen: Observation) -> bool:
        found = self.evidence.ports.collided(self.subject.path, seen, self.evidence.topology)
        self.said += [found.words] if found.words else []
        return found.explained


BY_CHANCE = 0.05
"""The chance below which a check loses more than its controls without a Service."""

RARELY = 0.001
"""The chance below which more connections are lost than a load balancer sends to one of its nodes."""


def as_asked(check: PathCheck, topology: Topology) -> PathCheck:
    """The check as its clients can be asked.

    A client that reaches VIPs and no node has no control listener. Its address is known in another way, which the
    facts name (client_addresses.py), so it needs no control that shows whether the way to a node keeps it.
    """

    def lacks(path: Path) -> bool:
        stand = topology.stands.get(path.client.name)
        return path.entry.kind is EntryKind.NODE_LISTENER and stand is not None and path.family in stand.only_vips

    controls = tuple(control for control in check.subject.controls if not lacks(control.path))
    return check.with_subject(replace(check.subject, controls=controls))


def decide(check: PathCheck, evidence: Evidence) -> Decision:
    """Decide one check."""
    check = as_asked(check, evidence.topology)
    path, paths = check.subject.path, check.subject.paths
    unseen = Decision(Status.INCONCLUSIVE, say_expected(check, evidence.topology), "not observed")
    for each in paths:
        if each.key in evidence.obstacles:
            return replace(unseen, reason=evidence.obstacles[each.key])
    if not evidence.readings(path):
        return replace(unseen, status=Status.ERROR, reason="the check was selected, but its path was never probed")
    found = _observed(check.subject, evidence, unseen)
    for each in paths:
        if broken := evidence.sound(each).broken:
            return replace(found, status=Status.ERROR, reason=broken + _of_a_control(each, path))
    aside = ((each, evidence.sound(each).text(evidence.samples)) for each in dict.fromkeys(paths))
    limits = "; ".join(text + _of_a_control(each, path) for each, text in aside if text)
    evidence = evidence.without_doubtful(paths)
    for control in check.subject.controls:
        if doubt := _doubt(control, evidence):
            return replace(found, reason=doubt, sees=limits)
    decided = _decide(check, evidence, found)
    limits = "; ".join(filter(None, (decided.sees, limits, _say_lost(check.subject, evidence))))
    if decided.status not in (Status.FAIL, Status.FLAKY) or decided.foreign:
        return replace(decided, sees=limits)
    environment = next((evidence.doubts[each.key] for each in paths if each.key in evidence.doubts), "")
    if not environment and (why := _lost_without_a_service(check.subject, evidence)):
        return replace(found, reason=why, sees=limits)
    return replace(decided, sees=limits, environment=environment)


def _of_a_control(path: Path, own: Path) -> str:
    return "" if path == own else f" (on {path.key}, a control)"


def _decide(check: PathCheck, evidence: Evidence, found: Decision) -> Decision:
    """The decision on sound evidence: whether it is as required."""
    if check.level is Level.RECORD:
        return replace(found, status=Status.RECORDED)
    subject, readings = check.subject, evidence.readings(check.subject.path)
    total = sum(reading.count for reading in readings)
    misreported = [_misreported(subject, each, evidence) for each in evidence.observations[subject.path.key]]
    right = [not lie and _fits(each, subject.accept) for each, lie in zip(readings, misreported, strict=True)]
    good = sum(each.count for each, well in zip(readings, right, strict=True) if well)
    aside = _aside(subject, evidence) or next(filter(None, misreported), "")
    if good == total and not aside:
        band = f"preserved out of band, in {subject.reported.value}" if subject.reported is not Claim.NOTHING else ""
        one_flow = f"0 of {total} datagrams of one flow differ"
        sees = one_flow if subject.path.one_socket else say_bound(total)
        return replace(found, status=Status.PASS, reason=band, sees=sees)
    facts = facts_at(subject.own_service, evidence.facts)
    unproven = unproven_at_vips(check, evidence.facts)
    mixture = ""
    late = not aside and _only_late(right, evidence.observations[subject.path.key])
    for known in check.differences:
        excused = known.connections
        if not known.holds(facts) or (aside and not excused.forwarded):
            continue
        if excused.single and not good:
            continue  # what befalls single connections leaves others as they must be
        if excused.proof is Proof.BALANCER and in_doubt(unproven, facts):
            continue
        covers = cover(subject, excused, evidence)
        if covers.whole:
            return replace(found, status=Status.KNOWN, known=known, sees=covers.words or known.evidence)
        mixture = mixture or _mixture(excused, covers, readings)
        known_or_right = [well or known for well, known in zip(right, covers.covered, strict=True)]
        late = late or (not aside and _only_late(known_or_right, evidence.observations[subject.path.key]))
    nobody = (
        _reports_nobody(subject, evidence)
        if any(misreported)
        else not aside and _of_nobody(subject, evidence, readings)
    )
    foreign = bool(unproven) and nobody
    faults = "; ".join(sorted({r.product_fault for r in readings if r.product_fault} | {aside} - {""}))
    if good and good < total:
        reason = f"{total - good} of {total} differ" + (f": {faults}" if faults else "")
        return replace(found, status=Status.FLAKY, reason=reason, foreign=foreign, late=late)
    if mixture:
        reason = "; ".join(filter(None, (mixture, faults)))
        return replace(found, status=Status.FLAKY, reason=reason, foreign=foreign)
    return replace(found, status=Status.FAIL, reason=faults, foreign=foreign, late=late)


def _only_late(right: Sequence[bool], made: Sequence[Observation]) -> bool:
    """Whether all that is not right is a few connections without an answer."""
    lost = [seen for seen, well in zip(made, right, strict=True) if not well]
    number = sum(each.count for each in lost)
    return all(each.outcome is Outcome.TIMEOUT for each in lost) and few(number, sum(each.count for each in made))


def _mixture(excused: Connections, covers: Cover, readings: Sequence[Reading]) -> str:
    """A sentence if only some connections of a path show the load balancer's own address; or an empty string."""
    if excused.proof is not Proof.BALANCER or not any(covers.alone):
        return ""
    by_it = sum(each.count for each, alone in zip(readings, covers.alone, strict=True) if alone)
    total = sum(each.count for each in readings)
    return f"{by_it} of {total} connections show the load balancer's own address, the others do not"


def _of_nobody(subject: OnPath, evidence: Evidence, readings: Sequence[Reading]) -> bool:
    """Whether NAT before the load balancer may explain all wrong results: only unknown addresses.

    If source ranges admit only the client's own address, NAT also causes silence. The address of a node, a pod or
    another client does not come from NAT.
    """
    made = evidence.observations[subject.path.key]
    wrong = [(each, seen) for each, seen in zip(readings, made, strict=True) if not _fits(each, subject.accept)]
    named = subject.path.service is not None and bool(subject.path.service.ranges)
    nobodys = frozenset({AddressClass.OTHER}) | (NO_ANSWER if named else frozenset())
    if any(not each.classes <= nobodys or each.product_fault for each, _ in wrong):
        return False
    others = held(evidence.topology) | evidence.clients
    return all(seen.seen is None or parse_address(seen.seen[0]) not in others for _, seen in wrong)


def _reports_nobody(subject: OnPath, evidence: Evidence) -> bool:
    """Whether each wrong address in a header is unknown, so that NAT before the load balancer may explain it."""
    others = held(evidence.topology) | evidence.clients
    for each in evidence.observations[subject.path.key]:
        if _misreported(subject, each, evidence):
            try:
                address = parse_address(reported_address(each, subject.reported) or "")
            except ValueError:
                return False
            if address in others:
                return False
    return True


def _aside(subject: OnPath, evidence: Evidence) -> str:
    """A violated requirement on all observations together, of backends or packets, as text; or an empty string."""
    backends = evidence.backends(subject.path)
    if subject.spread is Spread.ONE and len(backends) > 1:
        return f"answered by {len(backends)} backends ({', '.join(sorted(backends))}) instead of one"
    if subject.is_negative:
        answered = {o.seq for o in evidence.observations.get(subject.path.key, ()) if o.outcome is Outcome.ANSWERED}
        return say_delivered(evidence.witnesses.get(subject.path.key, ()), answered)
    return ""


def _misreported(subject: OnPath, observation: Observation, evidence: Evidence) -> str:
    """What is wrong with the client address that a backend got out of band, or an empty string."""
    if subject.reported is Claim.NOTHING or not observation.echo:
        return ""
    if not observation.source:
        return "the client did not report its own address, so the address in the header cannot be checked"
    reported = reported_address(observation, subject.reported)
    own = str(evidence.topology.shown(subject.path.client.name, observation.source[0]))
    with contextlib.suppress(ValueError):  # a balancer may put anything into a header
        if reported and parse_address(reported) == parse_address(own):
            return ""
        # A pod that its network add-on masquerades reaches the load balancer as its node, so that is the right address.
        ways = (f"pod-to-{there}.{subject.path.family.value.lower()}" for there in ("node", "outside"))
        masqueraded = any(evidence.facts.get(way) == "masqueraded" for way in ways)
        if reported and masqueraded and subject.path.client.vantage is Vantage.POD:
            stand = evidence.topology.stands.get(subject.path.client.name)
            node = evidence.topology.nodes.get(stand.node) if stand and stand.node else None
            if node and parse_address(reported) in node.addresses:
                return ""
    return f"the backend got {reported or 'no address'} in {subject.reported.value}, the client is {own}"


def _observed(subject: OnPath, evidence: Evidence, unseen: Decision) -> Decision:
    """What was observed on a path, still undecided."""
    readings = evidence.readings(subject.path)
    tally: Counter[str] = Counter()
    for reading in readings:
        tally[reading.words] += reading.count
    witnesses = evidence.witnesses.get(subject.path.key, ())
    sound = evidence.sound(subject.path).readings or readings
    return replace(
        unseen,
        observed=say_observed(tally),
        tally=dict(tally),
        shown=tuple(sorted({_foremost(reading, subject.accept) for reading in sound})),
        ports=say_ports(evidence.observations.get(subject.path.key, ())),
        change="; ".join(sorted({each.change for each in witnesses if each.change})),
        witnesses=say_witnesses(
            witnesses, evidence.blind, sum(tally.values()), evidence.tracked.get(subject.path.key, NOTHING_TRACKED)
        ),
    )


def _foremost(reading: Reading, accept: frozenset[AddressClass]) -> AddressClass:
    """The one class to show if an address fits several: preferably an expected one, and of these the most specific."""
    fitting = reading.classes & accept or reading.classes or {AddressClass.OTHER}
    for most in (AddressClass.HAIRPIN, AddressClass.NODE):
        if most in fitting:
            return most
    return min(fitting)


def _fits(reading: Reading, accept: frozenset[AddressClass]) -> bool:
    return not reading.product_fault and not reading.harness_fault and bool(reading.classes & accept)


def _say_lost(subject: OnPath, evidence: Evidence) -> str:
    """The losses of controls that hold, as text; or an empty string."""
    parts = []
    for path in dict.fromkeys(control.path for control in subject.controls):
        readings = evidence.readings(path)
        if lost := sum(each.count for each in readings if _is_loss(each)):
            parts.append(f"{lost} of {sum(each.count for each in readings)} lost (on {path.key}, a control)")
    return "; ".join(parts)


def _is_loss(reading: Reading) -> bool:
    """Whether a connection failed, so that it shows no address."""
    return reading.reset or reading.hung or (bool(reading.classes) and reading.classes <= NO_ANSWER)


def _doubt(control: Control, evidence: Evidence) -> str:
    """Why a control does not hold, or an empty string."""
    readings = evidence.readings(control.path)
    if not readings:
        return f"{control.why}, but {control.path.key} was never probed"
    accept = control.accept or frozenset(AddressClass) - NO_ANSWER - {AddressClass.OTHER}
    wrong = [each for each in readings if not _fits(each, accept)]
    total, missed = (sum(each.count for each in some) for some in (readings, wrong))
    least = 1.0 if control.unjudged else MOSTLY_CONTROL
    if not all(_is_loss(each) for each in wrong) or total - missed < least * total:
        tally: Counter[str] = Counter()
        for reading in readings:
            tally[reading.words] += reading.count
        what = f"{control.why}, but {control.path.key} showed {say_observed(tally)}"
        return f"{what}; no check judges what that Service loses" if control.unjudged else what
    if control.spread is Spread.SEVERAL and len(evidence.backends(control.path)) < 2:
        return f"{control.why}, but only {', '.join(evidence.backends(control.path))} answered"
    return ""


def _lost_without_a_service(subject: OnPath, evidence: Evidence) -> str:
    """Why a check's losses do not count: paths without any Service lose as many; or an empty string.

    This applies only if lost connections are the only fault, and if they are not more than the controls' losses
    predict: the chance of at least as many of all losses on this path is ``BY_CHANCE`` or more.
    """
    if _aside(subject, evidence) or any(
        _misreported(subject, each, evidence) for each in evidence.observations[subject.path.key]
    ):
        return ""
    readings = evidence.readings(subject.path)
    wrong = [each for each in readings if not _fits(each, subject.accept)]
    plain = list(
        {control.path.key: control.path for control in subject.controls if control.path.service is None}.values()
    )
    without = [each for path in plain for each in evidence.readings(path)]
    lost, lost_without = (sum(each.count for each in some if _is_loss(each)) for some in (wrong, without))
    if not lost or not lost_without or not all(_is_loss(each) for each in wrong):
        return ""
    total, total_without = (sum(each.count for each in some) for some in (readings, without))
    share, all_lost = total / (total + total_without), lost + lost_without
    if at_least_p(lost, all_lost, share) < BY_CHANCE:
        return ""
    where = ", ".join(path.key for path in plain)
    return (
        f"{lost} of {total} connections were lost, and {lost_without} of {total_without} without a Service ({where}): "
        "the Service is not the cause"
    )


def say_expected(check: PathCheck, topology: Topology) -> str:
    """The expectation as a sentence, resolved to this cluster's addresses."""
    subject = check.subject
    if check.level is Level.RECORD:
        return "nothing required: the result is recorded"
    if subject.is_negative:
        return "no answer (dropped or refused)"
    said = " or ".join(_say_class(each, subject.path, topology) for each in sorted(subject.accept))
    said += (
        f", and the client's own address in {subject.reported.value}" if subject.reported is not Claim.NOTHING else ""
    )
    return said + (", one backend for all connections" if subject.spread is Spread.ONE else "")


def _say_class(wanted: AddressClass, path: Path, topology: Topology) -> str:
    if wanted is AddressClass.CLIENT:
        stand = topology.stands.get(path.client.name)
        addresses = sorted(
            str(a) for a in (stand.addresses if stand else ()) if family_of(a) is path.family and not a.is_loopback
        )
        whose = "its node's" if path.client.vantage is Vantage.NODE else "its own"
        return f"{path.client.name}, with {whose} address" + (f" ({', '.join(addresses[:4])})" if addresses else "")
    if wanted is AddressClass.NODE:
        return "an address of another node" if path.client.vantage is Vantage.NODE else "an address of a node"
    if wanted is AddressClass.HAIRPIN:
        return "an address of the backend's own node"
    return wanted.value.replace("_", " ")


def say_ports(observations: Sequence[Observation]) -> str:
    """Whether the client's source port reached the backend, as text; recorded, never judged."""
    pairs = [pair for each in observations for pair in each.port_pairs if pair[1] is not None]
    kept = sum(1 for own, seen in pairs if own == seen)
    if not pairs:
        return ""
    return f"kept {kept} of {len(pairs)}" if kept else f"rewritten {len(pairs)} of {len(pairs)}"


# -------------------------------------------------------------------------------------------------------- registration
def _lacks_connections(check: ConnectionsCheck, _: Evidence, then: RunThen) -> str:
    return "" if then.asked(check) else "the run did not record this of its connections"


def _lacks_path(check: PathCheck, evidence: Evidence, then: RunThen) -> str:
    if then.asked(check):
        recorded = then.checks[check.id]
        controls = {each["path"] for each in recorded.data["controls"]}
        if recorded.path == check.subject.path.key and controls == {each.path.key for each in check.subject.controls}:
            return ""
    known = evidence.observations.keys() | evidence.obstacles.keys()
    return next((f"{path.key} was not dialled" for path in check.subject.paths if path.key not in known), "")


SCENARIO = Scenario(
    name="paths",
    suite="source_ip",
    record="paths",
    subjects=(OnPath, OnConnections),
    evidence=Window,
    with_known=with_known,
    decide=by_subject({OnPath: decide, OnConnections: decide_connections}),
    diagnose=by_subject({OnPath: diagnose_path, OnConnections: diagnose_connections}),
    lacks=by_subject({OnPath: _lacks_path, OnConnections: _lacks_connections}),
    pack=window_of,
    unpack=evidence_of,
    phases=(
        Typical("settle", base=1, check=0.004),
        Typical("observe", (OnPath,), base=5, connection=0.00038),
        Typical("packets", (OnPath,), check=0.0002),
    ),
)
