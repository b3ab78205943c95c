"""(row, observations, topology) -> verdict. Pure: it can judge an old run again with new rows.

The order of questions is the order of trust: can the row be asked here, is the harness whole, do the controls hold,
what did the backend see.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from esipp.model import (
    NO_ANSWER,
    AddressClass,
    Cell,
    Control,
    EntryKind,
    Feature,
    Level,
    Observation,
    Outcome,
    Override,
    Path,
    Status,
    Vantage,
    Verdict,
    missing_features,
)
from esipp.topology import Topology, family_of, parse_address


@dataclass(frozen=True)
class Reading:
    """One observation, read: the classes it fits and how to say it."""

    classes: frozenset[AddressClass]
    words: str
    product_fault: str = ""
    harness_fault: str = ""


def contradiction(observation: Observation) -> str:
    """Why an echo document cannot be true, or an empty string.

    Catches an echo server that lies or belongs to another version: its fields must agree with each other and with
    the probe. What only a second witness could tell is left to packets.
    """
    echo = observation.echo or {}
    try:
        told, raw = parse_address(str(echo["peer_address"])), parse_address(str(echo["peer_address_raw"]))
        local = parse_address(str(echo["local_address"]))
    except (KeyError, ValueError) as broken:
        return f"its document has no readable addresses ({broken})"
    if told != raw:
        return f"it says the peer is {told}, but its socket saw {raw}"
    if told.version != local.version:
        return f"it says the peer {told} reached it at {local}, of another IP family"
    if echo.get("nonce") != observation.nonce:
        return f"it answered with nonce {echo.get('nonce')!r} instead of {observation.nonce!r}"
    return ""


def read(path: Path, observation: Observation, topology: Topology) -> Reading:
    """Say what one observation shows."""
    outcome = observation.outcome
    if outcome is Outcome.ANSWERED:
        return _read_answer(path, observation, topology)
    if outcome is Outcome.REFUSED:
        return Reading(frozenset({AddressClass.REFUSED}), "refused")
    if outcome is Outcome.TIMEOUT and observation.connected is not None:
        fault = "the connection was accepted, and nothing was ever said on it"
        return Reading(frozenset({AddressClass.OTHER}), "accepted, then silence", product_fault=fault)
    if outcome in (Outcome.TIMEOUT, Outcome.UNREACHABLE):
        return Reading(frozenset({AddressClass.DROPPED}), "no answer" if outcome is Outcome.TIMEOUT else "unreachable")
    if outcome is Outcome.ERROR:
        why = observation.detail or "no reason given"
        return Reading(frozenset(), f"probe failed: {why}", harness_fault=f"the prober failed: {why}")
    fault = {
        Outcome.RESET: "the connection was made and then reset",
        Outcome.INVALID: "something that is not our echo server answered",
        Outcome.MISDIRECTED: "the answer came from another address than the one dialled",
    }[outcome]
    return Reading(frozenset({AddressClass.OTHER}), outcome.value, f"{fault} {observation.detail}".strip())


def _read_answer(path: Path, observation: Observation, topology: Topology) -> Reading:
    lie = contradiction(observation)
    if lie:
        return Reading(frozenset(), f"the echo server contradicts itself: {lie}", harness_fault=f"echo server: {lie}")
    assert observation.seen is not None
    seen = observation.seen[0]
    origin = topology.origin(path, seen, observation.source[0] if observation.source else None)
    words = f"{parse_address(seen)} = {origin.owner}"
    if path.entry.kind is EntryKind.NODE_LISTENER:
        dialled, answered = topology.roles.get(path.entry.role) if path.entry.role else None, observation.node
        if dialled != answered:
            fault = f"dialled the listener on node {dialled}, answered by node {answered}"
            return Reading(origin.classes, f"{words}, {fault}", product_fault=fault)
    elif observation.backend not in topology.backends:
        fault = f"answered by pod {observation.backend}, which is no backend of this service"
        return Reading(origin.classes, f"{words}, {fault}", product_fault=fault)
    if family_of(seen) is not path.family:
        fault = f"the backend saw an {family_of(seen)} address on an {path.family} path"
        return Reading(origin.classes, words, product_fault=fault)
    return Reading(origin.classes, words)


@dataclass(frozen=True)
class Evidence:
    """All that is known when rows are judged.

    Args:
        observations: the judged window, by path key; a row looks at its own path and those of its controls.
        topology: who owned which address.
        features: what the cluster and its surroundings offer, by name.
        samples: how many observations every path must have.
        facts: what was found about the cluster, for overrides (``pod-to-node.ipv4`` and the like).
        obstacles: why a path could not be dialled at all, by path key.
    """

    observations: Mapping[str, Sequence[Observation]]
    topology: Topology
    features: Mapping[str, Feature]
    samples: int
    facts: Mapping[str, str] = field(default_factory=dict)
    obstacles: Mapping[str, str] = field(default_factory=dict)
    _read: dict[str, list[Reading]] = field(default_factory=dict, compare=False)

    def readings(self, path: Path) -> list[Reading]:
        """The path's observations, each read once."""
        if path.key not in self._read:
            made = self.observations.get(path.key, ())
            self._read[path.key] = [read(path, each, self.topology) for each in made]
        return self._read[path.key]


def judge(cell: Cell, evidence: Evidence) -> Verdict:
    """Judge one row."""
    expected = say_expected(cell, evidence.topology)
    tally: dict[str, int] = {}
    shown: tuple[AddressClass, ...] = ()

    def verdict(status: Status, observed: str, reason: str = "", reference: str = "", ours: bool = False) -> Verdict:
        return Verdict(cell.id, cell.level, status, expected, observed, reason, tally, reference, shown, ours)

    missing = missing_features(cell, evidence.features)
    if missing:
        why = "; ".join(f"{name}: {feature.why}" for name, feature in missing.items())
        return verdict(Status.UNSUPPORTED, "not asked", f"needs {why}", ours=any(f.ours for f in missing.values()))

    for path in cell.paths:
        if path.key in evidence.obstacles:
            return verdict(Status.INCONCLUSIVE, "not asked", evidence.obstacles[path.key])
    readings = evidence.readings(cell.path)
    if not readings:
        return verdict(Status.ERROR, "nothing", "the row was selected but its path was never probed")
    tally = dict(Counter(reading.words for reading in readings))
    shown = tuple(sorted({_foremost(reading, cell.accept) for reading in readings}))
    observed = say_observed(tally)
    if len(readings) != evidence.samples:
        return verdict(Status.ERROR, observed, f"{len(readings)} probes were made where {evidence.samples} were asked")
    broken = next((r.harness_fault for r in readings if r.harness_fault), "")
    if broken:
        return verdict(Status.ERROR, observed, broken)

    for control in cell.controls:
        doubt = _doubt(control, evidence)
        if doubt:
            return verdict(Status.INCONCLUSIVE, observed, doubt)

    if cell.level is Level.RECORD:
        return verdict(Status.PASS, observed, "recorded")
    if _all_fit(readings, cell.accept):
        return verdict(Status.PASS, observed, say_bound(len(readings)))
    for override in cell.overrides:
        if _applies(override, evidence.facts) and _all_fit(readings, override.accept):
            return verdict(Status.KNOWN, observed, override.reason, override.reference)
    faults = "; ".join(sorted({r.product_fault for r in readings if r.product_fault}))
    good = sum(1 for r in readings if _fits(r, cell.accept))
    if good:
        return verdict(Status.FLAKY, observed, faults or f"{len(readings) - good} of {len(readings)} differ")
    return verdict(Status.FAIL, observed, faults)


def _foremost(reading: Reading, accept: frozenset[AddressClass]) -> AddressClass:
    """The one class to show where an address fits several: an expected one, and of these the one that says more."""
    fitting = reading.classes & accept or reading.classes or {AddressClass.OTHER}
    return AddressClass.NODE if AddressClass.NODE in fitting else min(fitting)


def _fits(reading: Reading, accept: frozenset[AddressClass]) -> bool:
    return not reading.product_fault and not reading.harness_fault and bool(reading.classes & accept)


def _all_fit(readings: Sequence[Reading], accept: frozenset[AddressClass]) -> bool:
    return all(_fits(reading, accept) for reading in readings)


def _applies(override: Override, facts: Mapping[str, str]) -> bool:
    return all(facts.get(name) == value for name, value in override.when)


def _doubt(control: Control, evidence: Evidence) -> str:
    """Why a control does not hold, or an empty string."""
    readings = evidence.readings(control.path)
    if not readings:
        return f"{control.why}, but {control.path.key} was never probed"
    accept = control.accept or frozenset(AddressClass) - NO_ANSWER - {AddressClass.OTHER}
    if _all_fit(readings, accept):
        return ""
    return f"{control.why}, but {control.path.key} showed {say_observed(Counter(r.words for r in readings))}"


def say_expected(cell: Cell, topology: Topology) -> str:
    """The expectation as a sentence, resolved to this cluster's addresses."""
    if cell.is_negative:
        return "no answer (dropped or refused)"
    return " or ".join(_say_class(each, cell.path, topology) for each in sorted(cell.accept))


def _say_class(wanted: AddressClass, path: Path, topology: Topology) -> str:
    if wanted is AddressClass.CLIENT:
        stand = topology.stands.get(path.client.name)
        addresses = sorted(
            str(a) for a in (stand.addresses if stand else ()) if family_of(a) is path.family and not a.is_loopback
        )
        whose = "its node's" if path.client.vantage is Vantage.NODE else "its own"
        return f"{path.client.name}, by {whose} address" + (f" ({', '.join(addresses[:4])})" if addresses else "")
    if wanted is AddressClass.NODE:
        return "an address of a node"
    return wanted.value.replace("_", " ")


def say_observed(tally: Mapping[str, int]) -> str:
    """The multiset of what was seen, most frequent first."""
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{words} x{count}" for words, count in ordered) or "nothing"


def say_bound(count: int) -> str:
    """What ``count`` equal answers say about all others, at 95 % confidence (the rule of three, exactly)."""
    share = 1 - 0.05 ** (1 / count)
    return f"{count} of {count}: at most {share:.1%} of connections differ, at 95 % confidence"
