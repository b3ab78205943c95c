"""The section on the Kubernetes API: checks by subject, requests, refusals and failures."""

from collections import Counter
from collections.abc import Mapping

from esipp.base.document import Block, Fold, Section, Table, Text
from esipp.base.plural import counted
from esipp.checks.api import Answer
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempted, shorten, tallied
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.api.judge import ApiEvidence

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


def section(run: RecordedRun) -> Section:
    """The section; empty if the run made no requests."""
    seen = run.evidence_of(ApiEvidence)
    if seen is None or not any(seen.answers.values()):
        return Section(TITLE)
    answers = seen.answers
    return attempted(ID, TITLE, {"The checks": lambda: _kinds(run), "The requests": lambda: _requests(answers)})


def _kinds(run: RecordedRun) -> list[Block]:
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
        return []
    rows = [
        [kind, of.total(), of["pass"], refusals[kind], of.total() - of["pass"] - of["unsupported"], of["unsupported"]]
        for kind, of in sorted(kinds.items())
    ]
    columns = list(zip(*(row[1:] for row in rows), strict=True))
    rows.append(["all", *(sum(int(n) for n in column) for column in columns)])
    head = ["subject", "checks", "as required", "refusal expected", "not as required", "unsupported"]
    not_right = Table.of(["check", "verdict", "expected", "observed"], wrong, "Checks that are not as required")
    failures = not_right if wrong else Text("All checks are as required.")
    return [Table.of(head, rows, "API checks by subject"), failures]


def _requests(answers: Mapping[str, Mapping[str, Answer]]) -> list[Block]:
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
            tallied(refused.get(name, Counter())),
            tally["warned"],
            tally["trouble"],
        ]
        for name, tally in made.items()
    ]
    head = ["Services", "requests", "accepted", "refused", "reasons", "with a warning", "errors"]
    failed = Fold(f"{counted(len(troubles), 'request')} with an error", (Table.of(["chain, step", "error"], troubles),))
    return [Table.of(head, rows, "Requests to the API server"), *([failed] if troubles else [])]


SECTIONS = Sections(section=section)
