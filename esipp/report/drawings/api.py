"""The section on the API: how many questions of each kind were asked, what was refused, what was not as required."""

from collections import Counter

from esipp.base.plural import counted as many
from esipp.ledger.reading import RecordedRun
from esipp.report.drawings.markup import Html, attempt, counted, details, joined, paragraph, shorten, table

ID = "api"
TITLE = "What the API server makes of Services"
SUITE = "compatibility"
STEMS = {
    "rule": "created as a user would",
    "change": "changed and changed back",
    "client": "by old and partial clients",
    "old": "with fields and annotations of before",
}
"""What chains of requests are named for."""

RIGHT = ("pass", "unsupported")


def draw(run: RecordedRun) -> Html:
    """The section; empty where no request was made."""
    if not run.of(SUITE, "step"):
        return Html("")
    parts = {"The questions": lambda: _kinds(run), "The requests": lambda: _requests(run)}
    return joined((attempt(what, make) for what, make in parts.items()), "\n")


def _kinds(run: RecordedRun) -> Html:
    """Verdicts on rows about the API, by kind of question."""
    kinds: dict[str, Counter[str]] = {}
    refusals: Counter[str] = Counter()
    wrong = []
    for row in run.checks:
        if row.suite != SUITE or not row.id.startswith("api."):
            continue
        kind = row.id.split(".")[1]
        verdict = run.verdicts.get(row.id)
        status = verdict.status.value if verdict else "not judged"
        kinds.setdefault(kind, Counter())[status] += 1
        refusals[kind] += row.asked != "" and str(row.expect).startswith("refused")
        if status not in RIGHT:
            seen = f"{verdict.observed} {verdict.reason}" if verdict else "the run broke off before"
            wrong.append([row.id, status, str(row.expect), shorten(seen, 240)])
    if not kinds:
        return Html("")
    rows = [
        [kind, of.total(), of["pass"], refusals[kind], of.total() - of["pass"] - of["unsupported"], of["unsupported"]]
        for kind, of in sorted(kinds.items())
    ]
    columns = list(zip(*(row[1:] for row in rows), strict=True))
    rows.append(["all", *(sum(int(n) for n in column) for column in columns)])
    head = ["about", "questions", "as required", "of all, to be refused", "not as required", "not of this version"]
    words = paragraph("Everything was as required.") if not wrong else Html("")
    told = table(["question", "judged", "required", "seen"], wrong, "Not as required") if wrong else words
    return joined([table(head, rows, "Questions to the API server, by what they are about"), told])


def _requests(run: RecordedRun) -> Html:
    """Requests and refusals, by how they were made."""
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
    head = ["Services", "requests", "taken", "refused", "with", "with a warning", "trouble"]
    parts = [table(head, rows, "Requests that were made for them")]
    if troubles:
        parts.append(
            details(f"{many(len(troubles), 'request')} with trouble", table(["chain, step", "trouble"], troubles))
        )
    return joined(parts)
