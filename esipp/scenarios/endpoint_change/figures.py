"""The section on convergence: how load balancers follow endpoint changes, and what they lose."""

from esipp.base.document import Block, Section, Text
from esipp.base.plural import counted as many
from esipp.judging.showing import attempted, headed, real
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.endpoint_change.bounds import SUITE, balance, black_holes, checks, lost
from esipp.scenarios.endpoint_change.responses import responses
from esipp.scenarios.endpoint_change.single_events import legend, timelines

ID = "convergence"
TITLE = "Convergence"


def section(run: RecordedRun) -> Section:
    """The section; empty if the suite did not run."""
    kinds = ("settings", "move", "distribution", "balance", "checks", "obstacle", "stretch")
    if not any(run.of(SUITE, kind) for kind in kinds):
        return Section(TITLE)
    parts = {
        "The endpoint changes": lambda: _begin(run),
        "Response times": lambda: headed("Response times", responses(run.of(SUITE, "distribution"))),
        "Black holes": lambda: headed("Black holes and their bound", black_holes(run)),
        "Lost requests": lambda: lost(run),
        "Timelines": lambda: _timelines(run),
        "Balance": lambda: headed("Balance", balance(run)),
        "Health checks": lambda: checks(run),
    }
    return attempted(ID, TITLE, parts)


def _timelines(run: RecordedRun) -> list[Block]:
    drawn = timelines(run)
    return headed("Single endpoint changes", [Text(legend()), *drawn]) if drawn else []


def _begin(run: RecordedRun) -> list[Block]:
    settings = (run.of(SUITE, "settings") or [{}])[-1]
    moves = run.of(SUITE, "move")
    balancers = list(dict.fromkeys(str(each.get("balancer")) for each in moves))
    behind = f"{many(len(balancers), 'load balancer')} ({', '.join(balancers)})"
    said = [f"{many(len(moves), 'endpoint change')} behind {behind}."]
    if not moves:
        said = ["No endpoint change was recorded: the run ended early, or no pod could be changed."]
    asked = settings.get("moves")
    short = [
        f"{balancer}: {made} of {asked} pods added"
        for balancer in balancers
        if asked and (made := sum(1 for each in moves if each.get("balancer") == balancer and each.get("up"))) < asked
    ]
    if short:
        said.append(f"Fewer endpoint changes than requested: {'; '.join(short)}.")
    facts = {
        "seed": settings.get("seed"),
        "planned seconds between requests:": settings.get("spacing"),
        "timeout of a request in seconds:": settings.get("timeout"),
        "packets:": settings.get("packets"),
    }
    clock = real(settings.get("clock_uncertainty"))
    known = [f"{name} {value}" for name, value in facts.items() if value is not None]
    known += [f"all times on one clock, precise to {1000 * clock:.1f} ms"] if clock is not None else []
    lines: list[Block] = [Text(" ".join([*said, "; ".join(known)]))]
    for each in run.of(SUITE, "obstacle"):
        lines.append(Text(f"{each.get('balancer')} could not be tested: {each.get('why')}"))
    return lines
