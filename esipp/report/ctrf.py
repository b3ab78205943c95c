"""ctrf-report.json: the Common Test Report Format, one test per check (cases.py); red if the exit code is not 0.

The reference implementation, the npm package ``ctrf``, has the schema.
"""

import json
from datetime import UTC, datetime

from esipp import __version__
from esipp.base.json import Json
from esipp.checks.check import Status
from esipp.ledger.reading import RecordedRun
from esipp.report.cases import WHOLE_RUN, Case, Outcome, cases, of_run, times

SPECIFICATION = "0.0.0"

STATUSES = ("passed", "failed", "skipped", "pending", "other")
"""All that the format has; ours are the first three."""


def render(run: RecordedRun) -> str:
    """The run as CTRF."""
    made = cases(run)
    tests = [_test(name, case) for name, group in made.items() for case in group]
    if outcome := of_run(run, made):
        tests.append({"name": WHOLE_RUN, **_status(outcome), "duration": 0, "suite": ["run"]})
    began, ended = run.header["at"], max(times(run))
    summary: Json = {"tests": len(tests), **{each: sum(test["status"] == each for test in tests) for each in STATUSES}}
    summary |= {"flaky": sum(test.get("flaky", False) for test in tests)}
    summary |= {"start": _milliseconds(began), "stop": _milliseconds(ended), "duration": _milliseconds(ended - began)}
    said = run.conclusion
    found: Json = {
        "reportFormat": "CTRF",
        "specVersion": SPECIFICATION,
        "runId": run.header["run"],
        "timestamp": datetime.fromtimestamp(int(ended), UTC).isoformat(),
        "generatedBy": f"esipp {__version__}",
        "results": {
            "tool": {"name": "esipp", "version": str(run.header["suite"])},
            "summary": summary,
            "tests": tests,
            "environment": {
                "testEnvironment": str(run.header["lane"]),
                "extra": {name: fact.value for name, fact in run.facts.items()},
            },
            "extra": {
                "result": said.result,
                "conclusion": said.sentence,
                "exitCode": int(said.exit_code),
                "repeat": run.command,
            },
        },
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _test(group: str, case: Case) -> Json:
    check = case.check
    made: Json = {"name": check.id, "testId": check.id, **_status(case.outcome)}
    made |= {"duration": _milliseconds(case.seconds), "suite": [group]}
    made |= {"rawStatus": case.labels["verdict"]} if "verdict" in case.labels else {}
    made |= {"flaky": True} if made.get("rawStatus") == Status.FLAKY.value else {}
    return made | {"labels": {name: text for name, text in case.labels.items() if name != "verdict"}}


def _status(outcome: Outcome | None) -> Json:
    if outcome is None:
        return {"status": "passed"}
    said = {"status": "failed" if outcome.red else "skipped", "message": outcome.message}
    return said | ({"trace": outcome.text} if outcome.text else {})


def _milliseconds(seconds: float) -> int:
    return round(float(seconds) * 1000)
