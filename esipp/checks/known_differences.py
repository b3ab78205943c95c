"""``KnownDifference``: a known deviation of a data plane, and the evidence that it requires. No I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from esipp.checks.model import OF_NODES, AddressClass
from esipp.checks.reference import Reference


class Nature(StrEnum):
    """The nature of a known difference: ``allowed`` by the API's text; a known ``defect``; or a ``finding`` of this
    suite without a known issue.
    """

    ALLOWED = "allowed"
    DEFECT = "known defect"
    FINDING = "finding"


class Proof(StrEnum):
    """What a known difference requires of the source address of a connection.

    ``class``: a class that the difference accepts. ``own-node``: an address of the client's own node. ``fact``: exactly
    the address in a fact (``Connections.names``). ``balancer``: an address of the Service's load balancer
    (judging/ingress.py), or a class that the difference accepts.
    """

    CLASS = "class"
    OWN_NODE = "own-node"
    FACT = "fact"
    BALANCER = "balancer"


@dataclass(frozen=True)
class Connections:
    """The connections of a path that a known difference covers.

    Args:
        accept: the additional address classes.
        proof: what it requires of the source address.
        names: the fact with the address; the family follows after a dot.
        forwarded: also covers packets that reach a backend although the client gets no answer.
        resets: covers connections that were reset while the routes of their Service changed.
        hangs: covers connections without any data, if another one had the same address and port at that time.
        collides: covers connections without an answer, under the same condition.
        turned_back: covers connections without an answer that the load balancer sent back to the client's own node.
    """

    accept: frozenset[AddressClass] = frozenset()
    proof: Proof = Proof.CLASS
    names: str = ""
    forwarded: bool = False
    resets: bool = False
    hangs: bool = False
    collides: bool = False
    turned_back: bool = False

    @property
    def single(self) -> bool:
        """Return whether they are single connections, and not a whole path."""
        return self.resets or self.hangs or self.collides

    @property
    def of_nodes(self) -> bool:
        """Return whether it takes node addresses, which only the agents know, to recognise them."""
        return self.proof is Proof.BALANCER or bool(self.accept & OF_NODES)


@dataclass(frozen=True)
class KnownDifference:
    """A known difference: where its facts hold and its evidence shows, the verdict on a failed check is ``known``.

    Args:
        when: the facts under which it holds.
        covers: what it excuses: the connections of a path; for checks of other suites the evidence, exactly as their
            judge reports it.
        reason: why the data plane differs.
        references: the documents that it rests on.
        before: limits it to older versions (``1.34`` of Kubernetes, ``cilium.version 1.19``).
        since: limits it to this version and later ones, likewise.
        nature: whether it is allowed, a defect or a finding.
        by_chance: whether a run may miss it although it holds.
        evidence: the required evidence, in a sentence.
        hides: what it can still hide (docs/excuses.md).
        still: what shows that the newest version of the project has it, too; None if that was not looked up.
    """

    when: tuple[tuple[str, str], ...]
    covers: Connections | str
    reason: str
    references: tuple[Reference, ...]
    before: str = ""
    since: str = ""
    nature: Nature = Nature.ALLOWED
    by_chance: bool = False
    evidence: str = ""
    hides: str = ""
    still: Reference | None = None

    @property
    def connections(self) -> Connections:
        """Return the connections that it covers; none if it names other evidence."""
        return self.covers if isinstance(self.covers, Connections) else Connections()

    @property
    def in_packets(self) -> bool:
        """Return whether only packets show it."""
        return self.connections.forwarded or self.connections.turned_back

    @property
    def claim(self) -> "KnownDifference":
        """Return what it says about clusters, which is the same for all its checks."""
        covered = self.connections
        return replace(self, covers=Connections(forwarded=covered.forwarded, turned_back=covered.turned_back))

    @property
    def where(self) -> str:
        """Return the clusters on which it holds, in words."""
        facts = ", ".join(f"{name} {value}" for name, value in self.when) or "any"
        return facts + (f", {self.limit}" if self.limit else "")

    @property
    def limit(self) -> str:
        """Return the versions on which it holds, in words; empty for all."""
        words = []
        for preposition, limit in (("from", self.since), ("before", self.before)):
            fact, _, version = limit.rpartition(" ")
            words += [f"{fact or 'Kubernetes'} {preposition} {version}"] if limit else []
        return ", ".join(words)

    def accepting(self, accept: frozenset[AddressClass]) -> "KnownDifference":
        """Return the same difference for connections with these address classes."""
        return replace(self, covers=replace(self.connections, accept=accept))

    def holds(self, facts: Mapping[str, str]) -> bool:
        """Return whether it holds on a cluster with these facts."""
        if self.before and not _is_older(facts, self.before):
            return False
        if self.since and _is_older(facts, self.since):
            return False
        return all(facts.get(name) == value for name, value in self.when)

    def divides(self, facts: Mapping[str, str]) -> bool:
        """Return whether some nodes of a cluster with these facts are older than its limit, and others are not."""
        fact, _, version = self.before.rpartition(" ")
        known = facts.get(fact or "kubernetes", "").split(", ")
        return bool(self.before) and len({_version(each) < _version(version) for each in known}) > 1


REHASHED = "rehashed"
"""Evidence: all lost connections were open while the load balancer changed its routes."""

PROXIED = "not the client"
"""Evidence: backends behind the cluster's own load balancer see an address other than the client's."""


def _is_older(facts: Mapping[str, str], limit: str) -> bool:
    """Return whether a cluster's version is older than a limit, such as ``cilium.version 1.19``.

    If nodes have several versions, the first and oldest one counts (``PROXY_VERSION``).
    """
    fact, _, version = limit.rpartition(" ")
    return _version(facts.get(fact or "kubernetes", "")) < _version(version)


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of ``v1.36.3-gke.1`` or ``1.34``; unreadable text counts as newer than all versions."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part) for part in found.groups() if part is not None) if found else (9999,)
