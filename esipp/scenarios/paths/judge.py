"""The judge of path checks: from observations and topology to a verdict. Pure: it can re-judge an old run.

The order of questions is the order of trust. Does the check apply here? Is the harness sound? Do both witnesses agree?
Do the controls hold? What did the backend see?
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.check import (
    Level,
    Status,
    is_instrument,
    missing_features,
    say_missing,
    unproven_at_vips,
)
from esipp.checks.ingress import facts_at
from esipp.checks.known_differences import Connections, Proof
from esipp.checks.model import NO_ANSWER, AddressClass, Claim, Path, Vantage
from esipp.checks.observation import Observation, Outcome, Verdict, Witness
from esipp.checks.path import Control, PathCheck, Spread
from esipp.checks.power import missed, most_unseen, say_share
from esipp.judging.ingress import held, in_doubt
from esipp.judging.reading import Reading, told_address
from esipp.judging.statistics import at_least_p
from esipp.judging.topology import Topology, family_of, parse_address
from esipp.scenarios.paths.evidence import Evidence
from esipp.scenarios.paths.excuses import Cover, cover

MOSTLY_CONTROL = 0.95
"""The share of a control's connections that must be right; the others may be lost, but must not show a wrong address.

A control proves that silence is not our fault, or that nothing rewrites the client's address before the cluster. One
lost connection of 200 disproves neither. The losses of a Service make its path's own check flaky; if no check has that
path, all connections must be right. The verdict lists the losses of controls.
"""

BY_CHANCE = 0.05
"""The chance below which a check loses more than its controls without a Service."""


@dataclass(frozen=True)
class _Words:
    """The texts that every verdict of a check carries."""

    expected: str
    observed: str = "not observed"
    tally: Mapping[str, int] = field(default_factory=dict)
    shown: tuple[AddressClass, ...] = ()
    ports: str = ""
    change: str = ""
    witnesses: str = ""


def judge(path_check: PathCheck, evidence: Evidence) -> Verdict:
    """Judge one check."""
    words = _Words(say_expected(path_check, evidence.topology))

    limits = ""

    def verdict(status: Status, reason: str = "", **more: Any) -> Verdict:
        more["sees"] = "; ".join(filter(None, (more.get("sees", ""), limits)))
        return Verdict(
            path_check.id, path_check.level, status, words.expected, words.observed, reason, words.tally,
            shown=words.shown, ports=words.ports, change=words.change, witnesses=words.witnesses,
            instrument=is_instrument(path_check, evidence.facts), **more,
        )  # fmt: skip

    missing = missing_features(path_check, evidence.features)
    if missing:
        ours = any(feature.ours for feature in missing.values())
        return verdict(Status.UNSUPPORTED, say_missing(path_check, missing), left_out=ours, missing=tuple(missing))
    for path in path_check.subject.paths:
        if path.key in evidence.obstacles:
            return verdict(Status.INCONCLUSIVE, evidence.obstacles[path.key])

    readings = evidence.readings(path_check.subject.path)
    if not readings:
        return verdict(Status.ERROR, "the check was selected, but its path was never probed")
    words = _words(path_check, evidence, words.expected)
    for path in path_check.subject.paths:
        broken = evidence.sound(path).broken
        if broken:
            return verdict(
                Status.ERROR, broken if path == path_check.subject.path else f"{broken} (on {path.key}, a control)"
            )
    aside = [(path, evidence.sound(path).text(evidence.samples)) for path in dict.fromkeys(path_check.subject.paths)]
    limits = "; ".join(
        f"{told}{'' if path == path_check.subject.path else f' (on {path.key}, a control)'}"
        for path, told in aside
        if told
    )
    evidence = evidence.without_doubtful(path_check.subject.paths)
    for control in path_check.subject.controls:
        doubt = _doubt(control, evidence)
        if doubt:
            return verdict(Status.INCONCLUSIVE, doubt)
    limits = "; ".join(filter(None, (limits, _say_lost(path_check, evidence))))
    said = _decide(path_check, evidence, evidence.readings(path_check.subject.path), verdict)
    if said.status in (Status.FAIL, Status.FLAKY):
        doubts = [evidence.doubts[path.key] for path in path_check.subject.paths if path.key in evidence.doubts]
        if doubts:
            return verdict(Status.INCONCLUSIVE, f"{doubts[0]} (observed: {said.reason or said.observed})")
        if why := _lost_without_a_service(path_check, evidence):
            return verdict(Status.INCONCLUSIVE, why)
    return said


def _decide(
    path_check: PathCheck, evidence: Evidence, readings: Sequence[Reading], verdict: Callable[..., Verdict]
) -> Verdict:
    """The verdict on sound evidence: whether it is as required."""
    if path_check.level is Level.RECORD:
        return verdict(Status.RECORDED)
    total = sum(reading.count for reading in readings)
    mistold = [_mistold(path_check, each, evidence) for each in evidence.observations[path_check.subject.path.key]]
    fitting = (
        r.count for r, lie in zip(readings, mistold, strict=True) if not lie and _fits(r, path_check.subject.accept)
    )
    good = sum(fitting)
    aside = _aside(path_check, evidence) or next(filter(None, mistold), "")
    if good == total and not aside:
        band = (
            f"preserved out of band, in {path_check.subject.told.value}"
            if path_check.subject.told is not Claim.NOTHING
            else ""
        )
        one_flow = f"0 of {total} datagrams of one flow differ"
        return verdict(Status.PASS, band, sees=one_flow if path_check.subject.path.one_socket else say_bound(total))
    facts = facts_at(path_check.subject.own_service, evidence.facts)
    unproven = unproven_at_vips(path_check, evidence.facts)
    mixture = ""
    for known in path_check.differences:
        excused = known.connections
        if not known.holds(facts) or (aside and not excused.forwarded):
            continue
        if excused.single and not good:
            continue  # what befalls single connections leaves others as they must be
        if excused.proof is Proof.BALANCER and in_doubt(unproven, facts):
            continue
        covers = cover(path_check, excused, evidence)
        if covers.whole:
            sees, nature = covers.words or known.evidence, known.nature.value
            return verdict(Status.KNOWN, known.reason, sees=sees, references=known.references, nature=nature)
        mixture = mixture or _mixture(excused, covers, readings)
    if not aside and unproven and _of_nobody(path_check, evidence, readings):
        return verdict(Status.INCONCLUSIVE, unproven)
    faults = "; ".join(sorted({r.product_fault for r in readings if r.product_fault} | {aside} - {""}))
    if good and good < total:
        return verdict(Status.FLAKY, f"{total - good} of {total} differ" + (f": {faults}" if faults else ""))
    if mixture:
        return verdict(Status.FLAKY, "; ".join(filter(None, (mixture, faults))))
    return verdict(Status.FAIL, faults)


def _mixture(excused: Connections, covers: Cover, readings: Sequence[Reading]) -> str:
    """A sentence if only some connections of a path show the load balancer's own address; or an empty string."""
    if excused.proof is not Proof.BALANCER or not any(covers.alone):
        return ""
    by_it = sum(each.count for each, alone in zip(readings, covers.alone, strict=True) if alone)
    total = sum(each.count for each in readings)
    return f"{by_it} of {total} connections show the load balancer's own address, the others do not"


def _of_nobody(path_check: PathCheck, evidence: Evidence, readings: Sequence[Reading]) -> bool:
    """Whether NAT before the load balancer may explain all wrong results: only unknown addresses.

    If source ranges admit only the client's own address, NAT also causes silence. The address of a node, a pod or
    another client does not come from NAT.
    """
    others = held(evidence.topology) | evidence.clients
    made = evidence.observations[path_check.subject.path.key]
    wrong = [
        (each, seen) for each, seen in zip(readings, made, strict=True) if not _fits(each, path_check.subject.accept)
    ]
    named = path_check.subject.path.service is not None and bool(path_check.subject.path.service.ranges)
    nobodys = frozenset({AddressClass.OTHER}) | (NO_ANSWER if named else frozenset())
    foreign = (seen.seen is None or parse_address(seen.seen[0]) not in others for _, seen in wrong)
    return all(each.classes <= nobodys and not each.product_fault for each, _ in wrong) and all(foreign)


def _aside(path_check: PathCheck, evidence: Evidence) -> str:
    """A violated requirement on all observations together, of backends or packets, as text; or an empty string."""
    backends = evidence.backends(path_check.subject.path)
    if path_check.subject.spread is Spread.ONE and len(backends) > 1:
        return f"answered by {len(backends)} backends ({', '.join(sorted(backends))}) instead of one"
    if path_check.subject.is_negative:
        answered = {
            o.seq for o in evidence.observations.get(path_check.subject.path.key, ()) if o.outcome is Outcome.ANSWERED
        }
        for witness in evidence.witnesses.get(path_check.subject.path.key, ()):
            if witness.delivered and witness.seq not in answered:
                view = "; ".join(" ".join(line.split()) for line in witness.words.splitlines())
                return f"no answer, but packets reached a backend: {view}"
    return ""


def _mistold(path_check: PathCheck, observation: Observation, evidence: Evidence) -> str:
    """What is wrong with the client address that a backend got out of band, or an empty string."""
    if path_check.subject.told is Claim.NOTHING or not observation.echo:
        return ""
    if not observation.source:
        return "the client did not report its own address, so the address in the header cannot be checked"
    told = told_address(observation, path_check.subject.told)
    own = str(evidence.topology.shown(path_check.subject.path.client.name, observation.source[0]))
    with contextlib.suppress(ValueError):  # a balancer may put anything into a header
        if told and parse_address(told) == parse_address(own):
            return ""
        # A pod that its network add-on masquerades reaches the load balancer as its node, so that is the right address.
        ways = (f"pod-to-{there}.{path_check.subject.path.family.value.lower()}" for there in ("node", "outside"))
        masqueraded = any(evidence.facts.get(way) == "masqueraded" for way in ways)
        if told and masqueraded and path_check.subject.path.client.vantage is Vantage.POD:
            stand = evidence.topology.stands.get(path_check.subject.path.client.name)
            node = evidence.topology.nodes.get(stand.node) if stand and stand.node else None
            if node and parse_address(told) in node.addresses:
                return ""
    return f"the backend got {told or 'no address'} in {path_check.subject.told.value}, the client is {own}"


def _words(path_check: PathCheck, evidence: Evidence, expected: str) -> _Words:
    readings = evidence.readings(path_check.subject.path)
    tally: Counter[str] = Counter()
    for reading in readings:
        tally[reading.words] += reading.count
    witnesses = evidence.witnesses.get(path_check.subject.path.key, ())
    return _Words(
        expected,
        say_observed(tally),
        dict(tally),
        tuple(
            sorted(
                {
                    _foremost(reading, path_check.subject.accept)
                    for reading in evidence.sound(path_check.subject.path).readings or readings
                }
            )
        ),
        say_ports(evidence.observations.get(path_check.subject.path.key, ())),
        "; ".join(sorted({each.change for each in witnesses if each.change})),
        _say_witnesses(witnesses, evidence.blind, sum(tally.values())),
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


def _say_lost(path_check: PathCheck, evidence: Evidence) -> str:
    """The losses of controls that hold, as text; or an empty string."""
    told = []
    for path in dict.fromkeys(control.path for control in path_check.subject.controls):
        readings = evidence.readings(path)
        if lost := sum(each.count for each in readings if _is_loss(each)):
            told.append(f"{lost} of {sum(each.count for each in readings)} lost (on {path.key}, a control)")
    return "; ".join(told)


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


def _lost_without_a_service(path_check: PathCheck, evidence: Evidence) -> str:
    """Why a check's losses do not count: paths without any Service lose as many; or an empty string.

    This applies only if lost connections are the only fault, and if they are not more than the controls' losses
    predict: the chance of at least as many of all losses on this path is ``BY_CHANCE`` or more.
    """
    if _aside(path_check, evidence) or any(
        _mistold(path_check, each, evidence) for each in evidence.observations[path_check.subject.path.key]
    ):
        return ""
    readings = evidence.readings(path_check.subject.path)
    wrong = [each for each in readings if not _fits(each, path_check.subject.accept)]
    plain = list(
        {
            control.path.key: control.path for control in path_check.subject.controls if control.path.service is None
        }.values()
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


def say_expected(path_check: PathCheck, topology: Topology) -> str:
    """The expectation as a sentence, resolved to this cluster's addresses."""
    if path_check.level is Level.RECORD:
        return "nothing required: the result is recorded"
    if path_check.subject.is_negative:
        return "no answer (dropped or refused)"
    said = " or ".join(
        _say_class(each, path_check.subject.path, topology) for each in sorted(path_check.subject.accept)
    )
    said += (
        f", and the client's own address in {path_check.subject.told.value}"
        if path_check.subject.told is not Claim.NOTHING
        else ""
    )
    return said + (", one backend for all connections" if path_check.subject.spread is Spread.ONE else "")


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


def say_observed(tally: Mapping[str, int]) -> str:
    """The counted observations as text, most frequent first."""
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{words} x{count}" for words, count in ordered) or "nothing"


def say_bound(count: int) -> str:
    """What ``count`` equal answers can and cannot say about others of the same client, entry, payload and time.

    The bound is the exact form of the rule of three, at 95 % confidence. The power is the chance of meeting a defect
    that affects one connection in a hundred, each with equal probability.
    """
    return (
        f"0 of {count} differ: with 95 % confidence, at most {say_share(most_unseen(count))} of such connections do; "
        f"a defect of 1 % of them goes unnoticed with a probability of {say_share(missed(count))}"
    )


def say_ports(observations: Sequence[Observation]) -> str:
    """Whether the client's source port reached the backend, as text; recorded, never judged."""
    pairs = [pair for each in observations for pair in each.port_pairs if pair[1] is not None]
    kept = sum(1 for own, seen in pairs if own == seen)
    if not pairs:
        return ""
    return f"kept {kept} of {len(pairs)}" if kept else f"rewritten {len(pairs)} of {len(pairs)}"


def _say_witnesses(witnesses: Sequence[Witness], blind: str, total: int) -> str:
    """The witnesses behind a verdict, as text; packets are captured for the sampled connections only."""
    found, doubtful = sum(each.seen for each in witnesses), sum(bool(each.doubt) for each in witnesses)
    if found:
        apart = f"the packets of {doubtful} more cannot be told apart from others" if doubtful else ""
        return "; ".join(filter(None, (f"echo server, and packets of {found} of {total} connections", apart, blind)))
    unseen = "no packets of its connections were captured"
    if doubtful:
        unseen = f"the packets of {doubtful} of its connections cannot be told apart from others"
    elif witnesses:
        unseen = "the captured packets do not show the way to a backend"
    return f"echo server only: {blind or unseen}"
