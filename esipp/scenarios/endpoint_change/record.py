"""Ledger records of endpoint changes: settings, changes, marks, stretches of equal probes, all distributions."""

from esipp.ledger.run import Run
from esipp.scenarios.endpoint_change.judge import Judge, distributions
from esipp.scenarios.endpoint_change.timeline import Timeline, black_hole, phases

SUITE = "convergence"


def keep(run: Run, judge: Judge) -> None:
    """Write down all results about one load balancer; times are seconds of this process's monotonic clock."""
    result = judge.result
    balancer = result.balancer.value
    if result.obstacle:
        run.evidence(SUITE, "obstacle", balancer=balancer, why=result.obstacle)
    for line in judge.lines:
        run.evidence(SUITE, "move", balancer=balancer, **_move(line))
    for mark in result.seen.marks:
        told = {"at": _s(mark.at), "what": mark.what, "pod": mark.pod, "family": mark.family}
        run.evidence(SUITE, "mark", balancer=balancer, **told)
    for each in result.seen.decisions:
        healthy = {"at": _s(each.at), "node": each.node, "healthy": each.healthy, "family": each.family}
        run.evidence(SUITE, "decision", balancer=balancer, **healthy)
    streams = [*result.seen.vip.values(), *result.seen.checks, *result.seen.ports.values()]
    streams += result.seen.beside.values()
    for stream in streams:
        who: dict[tuple[str, str, str], int] = {}  # told once: where two nodes take turns, most stretches are one probe
        runs = [
            [_s(each.since), _s(each.until), each.probes, each.outcome, who.setdefault(each[4:], len(who))]
            for each in stream.stretches()
        ]
        run.evidence(SUITE, "stretch", stream=stream.name, answered_by=[list(each) for each in who], stretches=runs)
    for family in result.seen.vip:
        for up in (True, False):
            for phase, of in distributions(judge.lines, family, up).items():
                which = {"family": family.value, "direction": "up" if up else "down", "phase": phase}
                run.evidence(SUITE, "distribution", balancer=balancer, **which, **of.as_json())
    for family, counted in result.counted.items():
        split = {"nodes": dict(counted.nodes), "pods": dict(counted.pods), "lost": counted.lost}
        split |= {"weights": dict(counted.weights), "control": counted.control, "control_lost": counted.control_lost}
        run.evidence(SUITE, "balance", balancer=balancer, family=family.value, **split, p_value=counted.p_value)
    promise = {"seconds": result.promise.seconds, "source": result.promise.source, "spreads": result.promise.spreads}
    checking = {"period": result.told.period, "failures": result.told.failures}
    run.evidence(SUITE, "checks", balancer=balancer, told=checking, observed=result.observed.as_json(), promise=promise)


def _move(line: Timeline) -> dict[str, object]:
    change = line.change
    traffic = {
        family.value: {
            "used": seen.used,
            "at": _s(seen.at),
            "steady": seen.steady,
            "decision": _s(seen.decision),
            "timed_out": seen.losses.timed_out,
            "refused": seen.losses.refused,
            "reset": seen.losses.reset,
            "wrong": seen.losses.wrong,
            "first_lost": _s(seen.losses.first),
            "last_lost": _s(seen.losses.last),
            "last_lost_by_steering": _s(seen.losses.end),
            "stray": seen.losses.stray,
            "outage": round(seen.losses.outage, 4),
            "black_hole": _s(black_hole(line, family)),
            "phases": {name: round(spent, 4) for name, spent in phases(line, family).items()},
        }
        for family, seen in line.traffic.items()
    }
    return {
        "number": change.number,
        "move": change.kind.value,
        "up": change.up,
        "node": change.node,
        "pod": change.pod,
        "cause": _s(change.cause),
        "until": _s(line.until),
        "trigger": _s(line.trigger),
        "slice": _s(line.slice),
        "health": {family.value: _s(at) for family, at in line.health.items()},
        "path": _s(line.path),
        "path_losses": line.path_losses,
        "traffic": traffic,
    }


def _s(at: float | None) -> float | None:
    return None if at is None else round(at, 4)
