"""(row, observations, topology) -> verdict. Pure: it can judge an old run again with new rows.

The order of questions is the order of trust: can the row be asked here, is the harness whole, do both witnesses agree,
do the controls hold, what did the backend see.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esipp.cell import Cell, Control, Override, Spread
from esipp.collisions import Ports
from esipp.model import NO_ANSWER, AddressClass, Claim, Path, Vantage
from esipp.observation import Observation, Outcome, Verdict, Witness
from esipp.reading import Reading, read, told_address
from esipp.rows import (
    Feature,
    Level,
    Status,
    holds,
    is_instrument,
    missing_features,
    say_missing,
    unproven_at_vips,
)
from esipp.topology import Topology, family_of, parse_address

MOSTLY = 0.9
"""The share of connections that must be right where what became of the others is excused."""


@dataclass(frozen=True)
class Evidence:
    """All that is known when rows are judged.

    Args:
        observations: the judged window, by path key; a row looks at its own path and those of its controls.
        topology: who owned which address.
        features: what the cluster and its surroundings offer, by name.
        samples: how many probes every path must have.
        facts: what was found about the cluster, for overrides (``pod-to-node.ipv4`` and the like).
        obstacles: why a path could not be dialled at all, by path key.
        witnesses: what packets tell of the sampled connections, by path key.
        blind: why there are no packets; empty where there are.
        doubts: what in the cluster's surroundings may explain that a path is not as it must be, by path key.
        windows: how often a path was observed, by path key, where it was in several windows.
    """

    observations: Mapping[str, Sequence[Observation]]
    topology: Topology
    features: Mapping[str, Feature]
    samples: int
    facts: Mapping[str, str] = field(default_factory=dict)
    obstacles: Mapping[str, str] = field(default_factory=dict)
    witnesses: Mapping[str, Sequence[Witness]] = field(default_factory=dict)
    blind: str = "no packets were captured"
    doubts: Mapping[str, str] = field(default_factory=dict)
    windows: Mapping[str, int] = field(default_factory=dict)
    _read: dict[str, list[Reading]] = field(default_factory=dict, compare=False)
    _ports: list[Ports] = field(default_factory=list, compare=False)

    def readings(self, path: Path) -> list[Reading]:
        """The path's observations, each read once."""
        if path.key not in self._read:
            made = self.observations.get(path.key, ())
            self._read[path.key] = [read(path, each, self.topology) for each in made]
        return self._read[path.key]

    def collided(self, path: Path) -> list[bool]:
        """Of each observation of a path, whether it was lost to another's connection from the same port."""
        if not self._ports:
            self._ports.append(Ports(self.observations.values()))
        made = self.observations.get(path.key, ())
        return [self._ports[0].collided(path, each, self.topology) for each in made]

    def backends(self, path: Path) -> set[str]:
        """The pods that answered on a path, by their own word."""
        return {each.backend for each in self.observations.get(path.key, ()) if each.backend}


@dataclass(frozen=True)
class _Words:
    """What every verdict of a row says, whatever it is."""

    expected: str
    observed: str = "not asked"
    tally: Mapping[str, int] = field(default_factory=dict)
    shown: tuple[AddressClass, ...] = ()
    ports: str = ""
    change: str = ""
    witnesses: str = ""


def judge(cell: Cell, evidence: Evidence) -> Verdict:
    """Judge one row."""
    words = _Words(say_expected(cell, evidence.topology))

    def verdict(status: Status, reason: str = "", **more: Any) -> Verdict:
        return Verdict(
            cell.id, cell.level, status, words.expected, words.observed, reason, words.tally, shown=words.shown,
            ports=words.ports, change=words.change, witnesses=words.witnesses,
            instrument=is_instrument(cell, evidence.facts), **more,
        )  # fmt: skip

    missing = missing_features(cell, evidence.features)
    if missing:
        ours = any(feature.ours for feature in missing.values())
        return verdict(Status.UNSUPPORTED, say_missing(cell, missing), left_out=ours, missing=tuple(missing))
    for path in cell.paths:
        if path.key in evidence.obstacles:
            return verdict(Status.INCONCLUSIVE, evidence.obstacles[path.key])

    readings = evidence.readings(cell.path)
    if not readings:
        return verdict(Status.ERROR, "the row was selected but its path was never probed")
    words = _words(cell, evidence, words.expected)
    for path in cell.paths:
        broken = _broken(path, evidence)
        if broken:
            return verdict(Status.ERROR, broken if path == cell.path else f"{broken} (on {path.key}, a control)")
    for control in cell.controls:
        doubt = _doubt(control, evidence)
        if doubt:
            return verdict(Status.INCONCLUSIVE, doubt)
    decided = _decide(cell, evidence, readings, verdict)
    doubts = [evidence.doubts[path.key] for path in cell.paths if path.key in evidence.doubts]
    if doubts and decided.status in (Status.FAIL, Status.FLAKY):
        return verdict(Status.INCONCLUSIVE, f"{doubts[0]} (seen: {decided.reason or decided.observed})")
    return decided


def _decide(cell: Cell, evidence: Evidence, readings: Sequence[Reading], verdict: Callable[..., Verdict]) -> Verdict:
    """What was seen can be believed: is it what was required?"""
    if cell.level is Level.RECORD:
        return verdict(Status.RECORDED)
    total = sum(reading.count for reading in readings)
    mistold = [_mistold(cell, each, evidence) for each in evidence.observations[cell.path.key]]
    fitting = (r.count for r, lie in zip(readings, mistold, strict=True) if not lie and _fits(r, cell.accept))
    good = sum(fitting)
    aside = _aside(cell, evidence) or next(filter(None, mistold), "")
    if good == total and not aside:
        band = f"preserved out of band, in {cell.told.value}" if cell.told is not Claim.NOTHING else ""
        one_flow = f"0 of {total} datagrams of one flow differ"
        return verdict(Status.PASS, band, sees=one_flow if cell.path.one_socket else say_bound(total))
    for override in cell.overrides:
        if not applies(override, evidence.facts) or (aside and not override.forwarded):
            continue
        if (override.resets or override.hangs or override.collides) and good < MOSTLY * total:
            continue
        taken = evidence.collided(cell.path) if override.collides else [False] * len(readings)
        if all(lost or _excused(r, override) for r, lost in zip(readings, taken, strict=True)):
            known = {"reference": override.reference, "nature": override.nature.value}
            return verdict(Status.KNOWN, override.reason, **known)
    if not aside and (unproven := unproven_at_vips(cell, evidence.facts)) and _of_nobody(cell, readings):
        return verdict(Status.INCONCLUSIVE, unproven)
    faults = "; ".join(sorted({r.product_fault for r in readings if r.product_fault} | {aside} - {""}))
    if good and good < total:
        return verdict(Status.FLAKY, f"{total - good} of {total} differ" + (f": {faults}" if faults else ""))
    return verdict(Status.FAIL, faults)


def _of_nobody(cell: Cell, readings: Sequence[Reading]) -> bool:
    """Whether all that is not as it should be may be NAT before the load balancer: addresses of nobody that we know.

    Where only the client's own address is let in, NAT looks like silence, too. A node's or a pod's address is no NAT's.
    """
    wrong = [each for each in readings if not _fits(each, cell.accept)]
    named = cell.path.service is not None and bool(cell.path.service.ranges)
    nobodys = frozenset({AddressClass.OTHER}) | (NO_ANSWER if named else frozenset())
    return all(each.classes <= nobodys and not each.product_fault for each in wrong)


def _aside(cell: Cell, evidence: Evidence) -> str:
    """What else is required of all observations together, and does not hold: backends, packets; or nothing."""
    backends = evidence.backends(cell.path)
    if cell.spread is Spread.ONE and len(backends) > 1:
        return f"answered by {len(backends)} backends ({', '.join(sorted(backends))}), not by one"
    if cell.is_negative:
        answered = {o.seq for o in evidence.observations.get(cell.path.key, ()) if o.outcome is Outcome.ANSWERED}
        for witness in evidence.witnesses.get(cell.path.key, ()):
            if witness.delivered and witness.seq not in answered:
                view = "; ".join(" ".join(line.split()) for line in witness.words.splitlines())
                return f"nothing answered, but packets went to a backend: {view}"
    return ""


def _mistold(cell: Cell, observation: Observation, evidence: Evidence) -> str:
    """What is wrong with the address that a backend was told out of band, or nothing."""
    if cell.told is Claim.NOTHING or not observation.echo:
        return ""
    if not observation.source:
        return "the client did not tell its own address, so nothing told can be held against it"
    told = told_address(observation, cell.told)
    own = str(evidence.topology.shown(cell.path.client.name, observation.source[0]))
    with contextlib.suppress(ValueError):  # a balancer may put anything into a header
        if told and parse_address(told) == parse_address(own):
            return ""
        # A pod that its network add-on masquerades reaches the balancer as its node: that is what it has to tell.
        ways = (f"pod-to-{there}.{cell.path.family.value.lower()}" for there in ("node", "outside"))
        masqueraded = any(evidence.facts.get(way) == "masqueraded" for way in ways)
        if told and masqueraded and cell.path.client.vantage is Vantage.POD:
            held = {address for node in evidence.topology.nodes.values() for address in node.addresses}
            if parse_address(told) in held:
                return ""
    return f"the backend was told {told or 'no address'} in {cell.told.value}, the client is {own}"


def _words(cell: Cell, evidence: Evidence, expected: str) -> _Words:
    readings = evidence.readings(cell.path)
    tally: Counter[str] = Counter()
    for reading in readings:
        tally[reading.words] += reading.count
    witnesses = evidence.witnesses.get(cell.path.key, ())
    return _Words(
        expected,
        say_observed(tally),
        dict(tally),
        tuple(sorted({_foremost(reading, cell.accept) for reading in readings})),
        say_ports(evidence.observations.get(cell.path.key, ())),
        "; ".join(sorted({each.change for each in witnesses if each.change})),
        _say_witnesses(witnesses, evidence.blind),
    )


def _foremost(reading: Reading, accept: frozenset[AddressClass]) -> AddressClass:
    """The one class to show where an address fits several: an expected one, and of these the one that says more."""
    fitting = reading.classes & accept or reading.classes or {AddressClass.OTHER}
    for most in (AddressClass.HAIRPIN, AddressClass.NODE):
        if most in fitting:
            return most
    return min(fitting)


def _fits(reading: Reading, accept: frozenset[AddressClass]) -> bool:
    return not reading.product_fault and not reading.harness_fault and bool(reading.classes & accept)


def _excused(reading: Reading, override: Override) -> bool:
    """Whether a known difference explains what was read."""
    passed = (
        (override.forwarded and reading.misdirected)
        or (override.resets and reading.reset)
        or (override.hangs and reading.hung)
    )
    return passed or _fits(reading, override.accept)


def applies(override: Override, facts: Mapping[str, str]) -> bool:
    """Whether a known difference is to be expected on this cluster."""
    return holds(override.when, override.before, facts)


def _broken(path: Path, evidence: Evidence) -> str:
    """Why what was observed on a path cannot be used at all, through no fault of the product; or an empty string."""
    readings, made = evidence.readings(path), evidence.observations.get(path.key, ())
    total = sum(reading.count for reading in readings)
    asked = evidence.samples * evidence.windows.get(path.key, 1)
    if readings and total != asked:
        return f"{total} probes were made where {asked} were asked"
    fault = next((reading.harness_fault for reading in readings if reading.harness_fault), "")
    if fault:
        return fault
    own = [pair[0] for each in made for pair in each.port_pairs if pair[0]]  # 0: this host never let it begin
    if not path.one_socket and len(set(own)) < len(own):
        return f"{len(own)} probes had only {len(set(own))} source ports: they were not as many connections"
    return next((each.contradiction for each in evidence.witnesses.get(path.key, ()) if each.contradiction), "")


def _doubt(control: Control, evidence: Evidence) -> str:
    """Why a control does not hold, or an empty string."""
    readings = evidence.readings(control.path)
    if not readings:
        return f"{control.why}, but {control.path.key} was never probed"
    accept = control.accept or frozenset(AddressClass) - NO_ANSWER - {AddressClass.OTHER}
    if not all(_fits(reading, accept) for reading in readings):
        tally: Counter[str] = Counter()
        for reading in readings:
            tally[reading.words] += reading.count
        return f"{control.why}, but {control.path.key} showed {say_observed(tally)}"
    if control.spread is Spread.SEVERAL and len(evidence.backends(control.path)) < 2:
        return f"{control.why}, but only {', '.join(evidence.backends(control.path))} answered"
    return ""


def say_expected(cell: Cell, topology: Topology) -> str:
    """The expectation as a sentence, resolved to this cluster's addresses."""
    if cell.level is Level.RECORD:
        return "nothing: what is seen is recorded"
    if cell.is_negative:
        return "no answer (dropped or refused)"
    said = " or ".join(_say_class(each, cell.path, topology) for each in sorted(cell.accept))
    said += f", and the client's own in {cell.told.value}" if cell.told is not Claim.NOTHING else ""
    return said + (", one backend for all" if cell.spread is Spread.ONE else "")


def _say_class(wanted: AddressClass, path: Path, topology: Topology) -> str:
    if wanted is AddressClass.CLIENT:
        stand = topology.stands.get(path.client.name)
        addresses = sorted(
            str(a) for a in (stand.addresses if stand else ()) if family_of(a) is path.family and not a.is_loopback
        )
        whose = "its node's" if path.client.vantage is Vantage.NODE else "its own"
        return f"{path.client.name}, by {whose} address" + (f" ({', '.join(addresses[:4])})" if addresses else "")
    if wanted is AddressClass.NODE:
        return "an address of another node" if path.client.vantage is Vantage.NODE else "an address of a node"
    if wanted is AddressClass.HAIRPIN:
        return "an address of the backend's own node"
    return wanted.value.replace("_", " ")


def say_observed(tally: Mapping[str, int]) -> str:
    """The multiset of what was seen, most frequent first."""
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{words} x{count}" for words, count in ordered) or "nothing"


ONE_PERCENT = 0.01
"""The share of wrong connections by which a check's power is told."""


def say_bound(count: int) -> str:
    """What ``count`` equal answers can and cannot say about others of the same client, entry, payload and moment.

    The bound is the rule of three, exactly, at 95 % confidence; the power is the chance to have met a defect of one
    connection in a hundred, if each is as likely to be hit as the next.
    """
    share, missed = 1 - 0.05 ** (1 / count), (1 - ONE_PERCENT) ** count
    return (
        f"0 of {count} differ: at most {share:.1%} of connections like these do, at 95 % confidence; a defect of 1 % "
        f"of them had a chance of {missed:.0%} to be missed"
    )


def say_ports(observations: Sequence[Observation]) -> str:
    """Whether the client's source port reached the backend; recorded, never judged."""
    pairs = [pair for each in observations for pair in each.port_pairs if pair[1] is not None]
    kept = sum(1 for own, seen in pairs if own == seen)
    if not pairs:
        return ""
    return f"kept {kept} of {len(pairs)}" if kept else f"rewritten {len(pairs)} of {len(pairs)}"


def _say_witnesses(witnesses: Sequence[Witness], blind: str) -> str:
    found = sum(1 for each in witnesses if each.seen)
    if found:
        return f"echo server and packets ({found} connections)" + (f"; {blind}" if blind else "")
    unseen = "the packets captured do not show the way to a backend" if witnesses else "its packets were not captured"
    return f"echo server only: {blind or unseen}"
