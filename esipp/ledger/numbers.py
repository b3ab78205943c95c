"""Measured numbers from a ledger's evidence: convergence. Pure."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from esipp.base.json import Json

if TYPE_CHECKING:  # the reader asks here whether evidence can be read
    from esipp.ledger.reading import RecordedRun

Made = TypeVar("Made", Json, list[Json])

CONVERGENCE = "convergence"

LOSSES = ("timed_out", "refused", "reset", "wrong", "stray")


PARTS: dict[str, "Callable[[RecordedRun], object]"] = {}
"""What reads the evidence of each suite, by name, and raises where it cannot."""


def _part(
    name: str, nothing: Callable[[], Made]
) -> "Callable[[Callable[[RecordedRun], Made]], Callable[[RecordedRun], Made]]":
    """Makes a reader of evidence return nothing for evidence of another form; ``unreadable`` reports that."""

    def tolerant(read: "Callable[[RecordedRun], Made]") -> "Callable[[RecordedRun], Made]":
        PARTS[name] = read

        @wraps(read)
        def told(run: "RecordedRun") -> Made:
            try:
                return read(run)
            except _ANOTHER_FORM:
                return nothing()

        return told

    return tolerant


_ANOTHER_FORM = (KeyError, TypeError, ValueError, AttributeError, IndexError)


def unreadable(run: "RecordedRun") -> Iterator[str]:
    """A sentence for each part of the evidence that this esipp cannot read."""
    for name, read in PARTS.items():
        try:
            read(run)
        except _ANOTHER_FORM as broken:
            yield f"the evidence of {name} has an unknown form: {broken!r}"


def pick(told: Mapping[str, Any], *names: str) -> Json:
    """These fields, null if they are missing."""
    return {name: told.get(name) for name in names}


# --------------------------------------------------------------------------------------------------------- convergence
def bound(checks: Mapping[str, Any]) -> Json:
    """A load balancer's worst case after a node lost its last endpoint, and its source; null without one.

    By ``--bound`` or a profile (``promise``), else by the load balancer's report, else by packets.
    """
    if "promise" in checks:
        return {"seconds": checks["promise"]["seconds"], "rests_on": checks["promise"]["source"]}
    gaps, failures = checks["observed"]["gaps"], checks["observed"]["failures"]
    seen = {"period": gaps.get("p50"), "failures": max(failures, default=None)}
    for words, found in (("as the load balancer reports", checks["told"]), ("as observed", seen)):
        if found["period"] is not None and found["failures"] is not None:
            return {"seconds": round((found["failures"] + 1) * found["period"], 4), "rests_on": words}
    return {"seconds": None, "rests_on": "no health checks were told or seen"}


@_part("convergence", lambda: [])
def balancers(run: "RecordedRun") -> list[Json]:
    """The load balancers of the endpoint changes, in the order of their records."""
    found: dict[str, Json] = {}

    def of(told: Mapping[str, Any]) -> Json:
        empty: Json = {
            "name": told["balancer"],
            "obstacle": "",
            "bound": {"seconds": None, "rests_on": "no health checks were told or seen"},
            "told": {"period": None, "failures": None},
            "observed": {"sources": [], "gaps": None, "failures": []},
            "moves": {"up": 0, "down": 0},
            "losses": {},
            "distributions": [],
            "balance": [],
        }
        return found.setdefault(told["balancer"], empty)

    for told in run.of(CONVERGENCE, "obstacle"):
        of(told)["obstacle"] = told["why"]
    for told in run.of(CONVERGENCE, "move"):
        _move(of(told), told)
    for told in run.of(CONVERGENCE, "distribution"):
        of(told)["distributions"].append(
            pick(told, "family", "direction", "phase", "n", "p50", "p95", "max") | {"samples": told["samples"]}
        )
    for told in run.of(CONVERGENCE, "balance"):
        of(told)["balance"].append(pick(told, "family", "nodes", "pods", "lost", "p_value"))
    for told in run.of(CONVERGENCE, "checks"):
        own, seen = of(told), told["observed"]
        own["told"] = pick(told["told"], "period", "failures")
        gaps = pick(seen["gaps"], "n", "p50", "p95", "max")
        own["observed"] = {"sources": seen["sources"], "gaps": gaps, "failures": seen["failures"]}
        own["bound"] = bound(told)
    return list(found.values())


def _move(own: Json, told: Mapping[str, Any]) -> None:
    """One change with its losses by family. A pod that goes elsewhere is an up and a down over one window, so losses
    are summed over the downs, and over ups without a down.
    """
    own["moves"]["up" if told["up"] else "down"] += 1
    if told["up"] and told["move"] == "elsewhere":
        return
    for family, seen in told["traffic"].items():
        sums = own["losses"].setdefault(family, dict.fromkeys(LOSSES, 0) | {"outage": 0.0, "black_hole": None})
        for name in LOSSES:
            sums[name] += seen[name]
        sums["outage"] = max(sums["outage"], seen["outage"])
        if seen["black_hole"] is not None and not told["up"]:
            sums["black_hole"] = max(sums["black_hole"] or 0.0, seen["black_hole"])


def response(balancer: Json) -> list[Json]:
    """Its distributions from the first sign of a change to traffic, by family and direction."""
    return [each for each in balancer["distributions"] if each["phase"] == "trigger to traffic"]
