"""What a run shows of a check, in words that hold on every cluster: no addresses, ports, names or counts of this one.

Two runs are two namespaces, mostly two clusters: pods and nodes have other addresses there, nodes other names, probes
fall on backends by chance. What is left when these are taken out is what may be compared.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from esipp.checks.check import Status
from esipp.checks.observation import Verdict
from esipp.ledger.reading import RecordedRun

_V4 = r"\d{1,3}(?:\.\d{1,3}){3}(?![\d.])"
_V6 = r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])"
_ADDRESS = re.compile(rf"{_V6}|(?<![\d.]){_V4}")
_WRITTEN = re.compile(r"192\.0\.2\.|198\.51\.100\.|203\.0\.113\.|127\.|0\.0\.0\.0|2001:db8|::1$|::$")
"""Addresses that stand in a manifest of ours, and are the same everywhere."""
_COUNT = re.compile(r" x\d+\b")
_PORT = re.compile(r"\b3[0-2]\d{3}\b")
_TIME = re.compile(r"\b\d+(?:\.\d+)? s\b")
_MEASURED = re.compile(r"\d+ of \d+|\d+(?:\.\d+)? s\b|\(\d+ exchanges\)|\(n=\d+\)")
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?\b")
_SHARE = re.compile(r"\b(\d+) of (\d+)\b")
_ASIDE = re.compile(r" \([^()]*\)|, p=\S+")
_WHO = re.compile(r"\b(client|node) [\w.-]+(?![^()]*\))")
_LINK = re.compile(r"\b(?:veth|cali|lxc|cilium_|gke|eni|azv)[0-9a-z]+\b")

NOT_TOLD = (Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.ERROR)
"""Verdicts behind which nothing was seen that could be believed: their reason is what they say."""


@dataclass(frozen=True)
class Shape:
    """What was seen of a check, free of what is one cluster's or one run's.

    ``seen`` are the things shown, as a set in words; ``ports`` whether source ports were kept; ``change`` the places
    at which packets saw the source change, empty where none were captured; ``why`` the reason, where nothing was seen.
    """

    seen: frozenset[str]
    ports: str = ""
    change: frozenset[str] = frozenset()
    why: str = ""


class Words:
    """Puts what one run tells into words that hold for all."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        roles = {str(name): str(role) for role, name in run.topology.get("roles", {}).items()}
        nodes: Mapping[str, Any] = run.topology.get("nodes", {})
        self._nodes = {name: roles.get(name, "another node") for name in nodes}
        names = sorted(self._nodes, key=len, reverse=True)
        self._named = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])") if names else None

    def shape(self, verdict: Verdict) -> Shape:
        """What may be compared of a verdict."""
        if verdict.status in NOT_TOLD:
            return Shape(frozenset(), why=self.plain(verdict.reason))
        shown = [what for what, times in verdict.tally.items() if times] if _counts_what(verdict) else []
        seen = frozenset(self.plain(_owner(each)) for each in shown) or frozenset({self._scrubbed(verdict.observed)})
        places = (self._place(each) for each in verdict.change.split("; ") if each)
        return Shape(seen, _ports(verdict.ports), frozenset(places))

    def why(self, verdict: Verdict) -> str:
        """The reason, of a verdict that has one which is not about what was measured."""
        return self.plain(verdict.reason) if verdict.status in (*NOT_TOLD, Status.KNOWN) else ""

    def plain(self, text: str) -> str:
        """A text without addresses, allocated ports, names of nodes and of the run."""
        text = text.replace(f"esipp-{self._run_id}", "NAMESPACE")
        if self._named:
            text = self._named.sub(lambda found: self._nodes[found[0]], text)
        text = _ADDRESS.sub(lambda found: found[0] if _WRITTEN.match(found[0]) else "ADDRESS", text)
        return _PORT.sub("PORT", text)

    @cached_property
    def _run_id(self) -> str:
        return str(self._run.header.get("run", "?"))

    def unmeasured(self, text: str) -> str:
        """A text without those of its parts that are about times; a share is none, some or all."""
        return "; ".join(_SHARE.sub(_share, part) for part in self.plain(text).split("; ") if not _TIME.search(part))

    def _scrubbed(self, observed: str) -> str:
        """A sentence about what was measured, without the measures; of shares, whether it was none, some or all."""
        text = _COUNT.sub("", self.plain(observed))
        if not _MEASURED.search(text):
            return text
        text = _ASIDE.sub("", text).partition(";")[0]
        text = _SHARE.sub(_share, text)
        text = _TIME.sub("some time", text)
        return _NUMBER.sub(lambda found: "0" if float(found[0]) == 0 else "some", text)

    def _place(self, change: str) -> str:
        return _LINK.sub("a pod's interface", self.plain(change.partition(": ")[0]))


def gist(shape: Shape) -> str:
    """A shape in few words, so that checks of many clients and nodes read alike: ``node (the node dialled)``."""
    if shape.why:
        return shape.why
    return " and ".join(sorted({_WHO.sub(r"\1", each) for each in shape.seen}))


def _counts_what(verdict: Verdict) -> bool:
    """Whether the tally tells what was shown, and does not count what got lost or was held against a bound."""
    return bool(verdict.tally) and not _MEASURED.search(verdict.observed)


def _owner(shown: str) -> str:
    """Whose an address is, where the tally says so."""
    address, equals, owner = shown.partition(" = ")
    return owner if equals and _ADDRESS.fullmatch(address) else shown


def _ports(told: str) -> str:
    """What became of most source ports, ``kept`` or ``rewritten``: by chance, single ones are what they were."""
    word, _, share = told.partition(" ")
    numbers = _SHARE.search(share)
    other = {"kept": "rewritten", "rewritten": "kept"}.get(word, word)
    return other if numbers and 2 * int(numbers[1]) < int(numbers[2]) else word


def _share(found: re.Match[str]) -> str:
    part, whole = int(found[1]), int(found[2])
    return "0 of all" if part == 0 else "all" if part == whole else "some of all"
