"""Measured numbers from the records of endpoint changes. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from esipp.base.json import Json

CONVERGENCE = "convergence"

LOSSES = ("timed_out", "refused", "reset", "wrong", "stray")

Records = Callable[[str, str], list[Json]]
"""The records of a suite and a kind, as ``RecordedRun.of``."""

_ANOTHER_FORM = (KeyError, TypeError, ValueError, AttributeError, IndexError)


def unreadable(records: Records) -> str:
    """Why the records have a form that this esipp cannot read; empty if it can."""
    try:
        _balancers(records)
    except _ANOTHER_FORM as broken:
        return f"the evidence of {CONVERGENCE} has an unknown form: {broken!r}"
    return ""


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


def balancers(records: Records) -> list[Json]:
    """The load balancers of the endpoint changes, in the order of their records; none from records of another form."""
    return [] if unreadable(records) else _balancers(records)


def _balancers(records: Records) -> list[Json]:
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

    for told in records(CONVERGENCE, "obstacle"):
        of(told)["obstacle"] = told["why"]
    for told in records(CONVERGENCE, "move"):
        _move(of(told), told)
    for told in records(CONVERGENCE, "distribution"):
        of(told)["distributions"].append(
            pick(told, "family", "direction", "phase", "n", "p50", "p95", "max") | {"samples": told["samples"]}
        )
    for told in records(CONVERGENCE, "balance"):
        of(told)["balance"].append(pick(told, "family", "nodes", "pods", "lost", "p_value"))
    for told in records(CONVERGENCE, "checks"):
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
