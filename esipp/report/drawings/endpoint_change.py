"""The section on convergence: how load balancers follow endpoint changes, and what they lose."""

from esipp.base.plural import counted as many
from esipp.ledger.reading import RecordedRun
from esipp.report.drawings.bounds import SUITE, balance, black_holes, checks, lost
from esipp.report.drawings.events import legend, timelines
from esipp.report.drawings.markup import Html, attempt, esc, heading, joined, paragraph, real
from esipp.report.drawings.responses import responses

ID = "convergence"
TITLE = "Convergence"


def draw(run: RecordedRun) -> Html:
    """The section; empty if the suite did not run."""
    kinds = ("settings", "move", "distribution", "balance", "checks", "obstacle", "stretch")
    if not any(run.of(SUITE, kind) for kind in kinds):
        return Html("")
    parts = {
        "The endpoint changes": lambda: _begin(run),
        "Response times": lambda: _headed("Response times", responses(run.of(SUITE, "distribution"))),
        "Black holes": lambda: _headed("Black holes and their bound", black_holes(run)),
        "Lost requests": lambda: lost(run),
        "Timelines": lambda: _timelines(run),
        "Balance": lambda: _headed("Balance", balance(run)),
        "Health checks": lambda: checks(run),
    }
    return joined((attempt(what, make) for what, make in parts.items()), "\n")


def _headed(title: str, part: Html) -> Html:
    return joined([heading(title), part]) if part else part


def _timelines(run: RecordedRun) -> Html:
    drawn = timelines(run)
    return joined([heading("Single endpoint changes"), paragraph(legend()), drawn]) if drawn else drawn


def _begin(run: RecordedRun) -> Html:
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
    lines = [paragraph(" ".join(said), " ", "; ".join(known))]
    for each in run.of(SUITE, "obstacle"):
        lines.append(paragraph(esc(f"{each.get('balancer')} could not be tested: {each.get('why')}")))
    return joined(lines)
