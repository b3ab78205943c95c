"""The section on the Kubernetes API: checks by subject, requests, refusals and failures."""

from collections import Counter
from collections.abc import Mapping

from esipp.base.plural import counted as many
from esipp.checks.api import Answer
from esipp.ledger.reading import RecordedRun
from esipp.report.drawings.markup import Html, attempt, counted, details, joined, paragraph, shorten, table
from esipp.scenarios.api.judge import Seen

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
    seen = run.evidence_of(Seen)
    if seen is None or not any(seen.answers.values()):
        return Html("")
    answers = seen.answers
    parts = {"The checks": lambda: _kinds(run), "The requests": lambda: _requests(answers)}
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


def _requests(answers: Mapping[str, Mapping[str, Answer]]) -> Html:
    """Requests and refusals by kind of client."""
    made: dict[str, Counter[str]] = {}
    refused: dict[str, Counter[str]] = {}
    troubles = []
    for chain, steps in answers.items():
        kind = STEMS.get(chain.partition("-")[0], chain.partition("-")[0])
        for step, answer in steps.items():
            tally = made.setdefault(kind, Counter())
            tally["requests"] += 1
            tally["warned"] += bool(answer.warnings)
            if answer.refused:
                code, reason, _ = answer.refused
                refused.setdefault(kind, Counter())[f"{code} {reason}"] += 1
            if answer.trouble:
                tally["trouble"] += 1
                troubles.append([f"{chain}, {step}", shorten(answer.trouble, 240)])
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
