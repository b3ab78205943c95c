"""Known differences of paths: which observations each covers, and by what evidence. Pure.

A difference covers the connections whose evidence it has, and no others (docs/excuses.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from esipp.checks.known_differences import Connections, Proof
from esipp.checks.model import AddressClass, Vantage
from esipp.checks.observation import Observation
from esipp.checks.path import OnPath
from esipp.judging.ingress import held, is_told, why_not_its_own
from esipp.judging.reading import Reading
from esipp.judging.topology import IPAddress, parse_address
from esipp.scenarios.paths.evidence import Evidence

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
        if why_not_its_own(sources, others, told=is_told(evidence.facts)):
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
        told = self.evidence.witnesses.get(self.subject.path.key, ())
        came = next((each.delivered for each in told if each.seq == seen.seq and not each.doubt), None)
        words = self.evidence.ports.shared(self.subject.path, came, seen) if came else ""
        self.said += [words] if words else []
        return bool(words)

    def _collided(self, seen: Observation) -> bool:
        found = self.evidence.ports.collided(self.subject.path, seen, self.evidence.topology)
        self.said += [found.words] if found.words else []
        return found.explained
