"""Observations of a check without addresses, ports, names and counts, so that runs on different clusters compare.

Two runs use two namespaces, mostly on two clusters: pods and nodes have other addresses, nodes have other names, and
probes reach backends by chance. Only what remains without these is compared.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from esipp.base.plural import counted
from esipp.checks.check import Status, Verdict
from esipp.ledger.reading import RecordedRun

_V4 = r"\d{1,3}(?:\.\d{1,3}){3}(?![\d.])"
_V6 = r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])"
_ADDRESS = re.compile(rf"{_V6}|(?<![\d.]){_V4}")
_WRITTEN = re.compile(r"192\.0\.2\.|198\.51\.100\.|203\.0\.113\.|127\.|0\.0\.0\.0|2001:db8|::1$|::$")
"""Addresses from the suite's manifests, which are the same everywhere."""
_COUNT = re.compile(r" x\d+\b")
_PORT = re.compile(r"\b3[0-2]\d{3}\b")
_TIME = re.compile(r"\b\d+(?:\.\d+)? s\b")
_MEASURED = re.compile(r"\d+ of \d+|\d+(?:\.\d+)? s\b|\(\d+ exchanges\)|\(n=\d+\)")
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?\b")
_SHARE = re.compile(r"\b(\d+) of (\d+)\b")
_ASIDE = re.compile(r" \([^()]*\)|, p=\S+")
_WHO = re.compile(r"\b(client|node) [\w.-]+(?![^()]*\))")
_LINK = re.compile(r"\b(?:veth|cali|lxc|cilium_|gke|eni|azv)[0-9a-z]+\b")

UNOBSERVED = (Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.ERROR)
"""Verdicts without a valid observation; their reason is compared instead."""


@dataclass(frozen=True)
class Shape:
    """The comparable part of a verdict, independent of cluster and run.

    ``seen`` are the observations in words; ``ports`` says whether source ports were kept; ``change`` are the places at
    which packets show a change of the source, empty without captures; ``why`` is the reason without an observation.
    """

    seen: frozenset[str]
    ports: str = ""
    change: frozenset[str] = frozenset()
    why: str = ""


class Words:
    """Translates the texts of one run into words that hold for all runs."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        roles = {str(name): str(role) for role, name in run.topology.get("roles", {}).items()}
        nodes: Mapping[str, Any] = run.topology.get("nodes", {})
        self._nodes = {name: roles.get(name, "another node") for name in nodes}
        names = sorted(self._nodes, key=len, reverse=True)
        self._named = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])") if names else None

    def shape(self, verdict: Verdict) -> Shape:
        """The comparable part of a verdict."""
        if verdict.status in UNOBSERVED:
            return Shape(frozenset(), why=self.plain(verdict.reason))
        shown = [what for what, times in verdict.tally.items() if times] if _counts_what(verdict) else []
        seen = frozenset(self.plain(_owner(each)) for each in shown) or frozenset({self._scrubbed(verdict.observed)})
        places = (self._place(each) for each in verdict.change.split("; ") if each)
        return Shape(seen, _ports(verdict.ports), frozenset(places))

    def why(self, verdict: Verdict) -> str:
        """The reason of an unobserved verdict or a known difference; empty for others."""
        return self.plain(verdict.reason) if verdict.status in (*UNOBSERVED, Status.KNOWN) else ""

    def plain(self, text: str) -> str:
        """A text with placeholders for addresses, allocated ports, node names and the namespace."""
        text = text.replace(f"esipp-{self._run_id}", "NAMESPACE")
        if self._named:
            text = self._named.sub(lambda found: self._nodes[found[0]], text)
        text = _ADDRESS.sub(lambda found: found[0] if _WRITTEN.match(found[0]) else "ADDRESS", text)
        return _PORT.sub("PORT", text)

    @cached_property
    def _run_id(self) -> str:
        return str(self._run.header.get("run", "?"))

    def measured(self, verdict: Verdict) -> str:
        """The observation with its numbers; empty if it has no measurement that a shape would drop."""
        if verdict.status in UNOBSERVED or _counts_what(verdict) or not _MEASURED.search(verdict.observed):
            return ""
        return self.plain(verdict.observed)

    def unmeasured(self, text: str) -> str:
        """A text without its parts about times; a share becomes none, some or all."""
        return "; ".join(_SHARE.sub(_share, part) for part in self.plain(text).split("; ") if not _TIME.search(part))

    def _scrubbed(self, observed: str) -> str:
        """A sentence about measurements without the numbers; a share becomes none, some or all."""
        text = _COUNT.sub("", self.plain(observed))
        if not _MEASURED.search(text):
            return text
        text = _ASIDE.sub("", text).partition(";")[0]
        text = _SHARE.sub(_share, text)
        text = _TIME.sub("some time", text)
        return _NUMBER.sub(lambda found: "0" if float(found[0]) == 0 else "some", text)

    def _place(self, change: str) -> str:
        return _LINK.sub("a pod's interface", self.plain(change.partition(": ")[0]))


_FIGURE = re.compile(r"(?<![\w.:-])\+?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w-]|\.\d)")
"""A number of a sentence, not part of a name."""


def ranges(texts: Sequence[str]) -> str:
    """Sentences that differ only in numbers as one: ``1 to 3 of 175 lost``. Else the first one, and how many differ."""
    distinct = list(dict.fromkeys(texts))
    if len({_FIGURE.sub("N", text) for text in distinct}) > 1:
        return f"{distinct[0]} ({counted(len(distinct) - 1, 'other result')})"
    columns = iter([*zip(*(_FIGURE.findall(text) for text in distinct), strict=True)])
    return _FIGURE.sub(lambda _: _range(next(columns)), distinct[0])


def _range(figures: Sequence[str]) -> str:
    low, high = min(figures, key=float), max(figures, key=float)
    return low if float(low) == float(high) else f"{low} to {high}"


def gist(shape: Shape) -> str:
    """A shape in few words, equal for checks of many clients and nodes: ``node (the node dialled)``."""
    if shape.why:
        return shape.why
    return " and ".join(sorted({_WHO.sub(r"\1", each) for each in shape.seen}))


def _counts_what(verdict: Verdict) -> bool:
    """Whether the tally counts observations, not losses or comparisons with a bound."""
    return bool(verdict.tally) and not _MEASURED.search(verdict.observed)


def _owner(shown: str) -> str:
    """The owner of an address, if the tally names it."""
    address, equals, owner = shown.partition(" = ")
    return owner if equals and _ADDRESS.fullmatch(address) else shown


def _ports(text: str) -> str:
    """The fate of most source ports, ``kept`` or ``rewritten``: single ports are kept by chance."""
    word, _, share = text.partition(" ")
    numbers = _SHARE.search(share)
    other = {"kept": "rewritten", "rewritten": "kept"}.get(word, word)
    return other if numbers and 2 * int(numbers[1]) < int(numbers[2]) else word


def _share(found: re.Match[str]) -> str:
    part, whole = int(found[1]), int(found[2])
    return "0 of all" if part == 0 else "all" if part == whole else "some of all"
