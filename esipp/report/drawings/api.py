"""The section on the Kubernetes API: checks by subject, requests, refusals and failures."""

from collections import Counter

from esipp.base.plural import counted as many
from esipp.ledger.reading import RecordedRun
from esipp.report.drawings.markup import Html, attempt, counted, details, joined, paragraph, shorten, table

ID = "api"
TITLE = "Service API"
SUITE = "compatibility"
STEMS = {
    "rule": "created by a user",
    "change": "changed and changed back",
    "client": "by old and partial clients",
    "old": "with old fields and annotations",
}
"""Titles of the chains of requests by the start of their names."""

RIGHT = ("pass", "unsupported")


def draw(run: RecordedRun) -> Html:
    """The section; empty if the run made no requests."""
    if not run.of(SUITE, "step"):
        return Html("")
    parts = {"The checks": lambda: _kinds(run), "The requests": lambda: _requests(run)}
    return joined((attempt(what, make) for what, make in parts.items()), "\n")


def _kinds(run: RecordedRun) -> Html:
    """Verdicts of the API checks by subject."""
    kinds: dict[str, Counter[str]] = {}
    refusals: Counter[str] = Counter()
    wrong = []
    for check in run.checks:
        if check.suite != SUITE or not check.id.startswith("api."):
            continue
        kind = check.id.split(".")[1]
        verdict = run.verdicts.get(check.id)
        status = verdict.status.value if verdict else "not judged"
        kinds.setdefault(kind, Counter())[status] += 1
        refusals[kind] += check.asked != "" and str(check.expect).startswith("refused")
        if status not in RIGHT:
            seen = f"{verdict.observed} {verdict.reason}" if verdict else "no verdict: the run ended early"
            wrong.append([check.id, status, str(check.expect), shorten(seen, 240)])
    if not kinds:
        return Html("")
    rows = [
        [kind, of.total(), of["pass"], refusals[kind], of.total() - of["pass"] - of["unsupported"], of["unsupported"]]
        for kind, of in sorted(kinds.items())
    ]
    columns = list(zip(*(row[1:] for row in rows), strict=True))
    rows.append(["all", *(sum(int(n) for n in column) for column in columns)])
    head = ["subject", "checks", "as required", "refusal expected", "not as required", "unsupported"]
    words = paragraph("All checks are as required.") if not wrong else Html("")
    failures = (
        table(["check", "verdict", "expected", "observed"], wrong, "Checks that are not as required")
        if wrong
        else words
    )
    return joined([table(head, rows, "API checks by subject"), failures])


def _requests(run: RecordedRun) -> Html:
    """Requests and refusals by kind of client."""
    made: dict[str, Counter[str]] = {}
    refused: dict[str, Counter[str]] = {}
    troubles = []
    for each in run.of(SUITE, "step"):
        stem = str(each.get("chain")).partition("-")[0]
        tally = made.setdefault(STEMS.get(stem, stem), Counter())
        tally["requests"] += 1
        tally["warned"] += bool(each.get("warnings"))
        if each.get("refused"):
            code, reason = each["refused"][0], each["refused"][1]
            refused.setdefault(STEMS.get(stem, stem), Counter())[f"{code} {reason}"] += 1
        if each.get("trouble"):
            tally["trouble"] += 1
            troubles.append([f"{each.get('chain')}, {each.get('step')}", shorten(each["trouble"], 240)])
    rows = [
        [
            name,
            tally["requests"],
            tally["requests"] - refused.get(name, Counter()).total() - tally["trouble"],
            refused.get(name, Counter()).total(),
            counted(refused.get(name, Counter())),
            tally["warned"],
            tally["trouble"],
        ]
        for name, tally in made.items()
    ]
    head = ["Services", "requests", "accepted", "refused", "reasons", "with a warning", "errors"]
    parts = [table(head, rows, "Requests to the API server")]
    if troubles:
        parts.append(
            details(f"{many(len(troubles), 'request')} with an error", table(["chain, step", "error"], troubles))
        )
    return joined(parts)
