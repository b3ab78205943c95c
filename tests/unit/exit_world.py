"""A whole process of ``esipp``, or of pytest on the suites, that ends as the test wants; there is no cluster behind it.

``python -m tests.unit.exit_world ENDING (esipp | pytest) ARGUMENT…``: ENDING is a status that every check gets, or how
the harness ends: ``harness``, ``fault``, ``unfit``, ``hangs``, ``left-behind`` (all pass, but teardown fails).
"""

import os
import sys
import time
from types import SimpleNamespace
from typing import Any

import esipp.checks.check
import esipp.cluster.client
import esipp.ledger.run
import esipp.preflight.preflight
import esipp.preflight.steps
from esipp.base.errors import HarnessError, PreflightError
from esipp.checks.check import Check, Status, Verdict, is_about
from esipp.checks.model import Outcome
from esipp.checks.path import OnPath
from esipp.cluster.client import ApiCalls
from esipp.judging.observation import Observation
from esipp.judging.scenario import Scenario
from esipp.ledger.codec import record_of
from esipp.preflight.preflight import Findings

STDERR = os.dup(2)
"""Where standard error leads before pytest redirects it."""

HOSTILE = "it says\n::error title=forged::x\n::set-output name=a::b\n##[error]forged"


def pretend(ending: str) -> None:
    """Put what never asks a cluster in the place of what does."""

    def judge(_scenario: Scenario, check: Check, _evidence: Any, _known: Any) -> Verdict:
        if ending == "harness":
            raise HarnessError("The testbed fell over.", "set it up again.")
        if ending == "fault":
            raise RuntimeError("nobody thought of this")
        if ending == "hangs":
            os.write(STDERR, b"hanging\n")
            time.sleep(60)
        status = Status.PASS if ending == "left-behind" else Status(ending)
        return Verdict(check.id, check.level, status, "the client", HOSTILE, reason=HOSTILE)

    def examine(*_: Any) -> Findings:
        os.write(STDERR, b"examined\n")
        if ending == "unfit":
            raise PreflightError("The cluster has no nodes.", "add one.")
        return Findings({}, {}, {}, {}, {}, None)

    keep = esipp.ledger.run.Run.keep

    def keep_with_a_probe(run: esipp.ledger.run.Run, verdict: Verdict) -> None:
        """No check passes without anything seen."""
        (check,) = [check for check in run.checks if check.id == verdict.check_id]
        if is_about(check, OnPath):
            run.record("observation", **record_of(Observation(check.subject.path.key, 0, Outcome.ANSWERED)))
        keep(run, verdict)

    esipp.ledger.run.Run.keep = keep_with_a_probe
    Scenario.judge = judge
    esipp.preflight.preflight.examine = examine
    for name in ("check_given", "check_image", "check_machine", "check_without_cluster"):
        setattr(esipp.preflight.steps, name, lambda *_: None)
    calls = SimpleNamespace(counts=_leave_behind) if ending == "left-behind" else ApiCalls()
    nobody = SimpleNamespace(calls=calls)
    esipp.cluster.client.Cluster = SimpleNamespace(of=lambda _: nobody)
    esipp.checks.check.missing_features = lambda *_: {"everything": None}


def _leave_behind() -> None:
    raise HarnessError("The namespace still exists.", "see what blocks it.")


def main() -> int:
    """Pretend, then be what is asked for."""
    ending, program, *arguments = sys.argv[1:]
    pretend(ending)
    if program == "esipp":
        from esipp.app.cli import main

        return main(arguments)
    import pytest

    # Where esipp is installed, its plugin's assertions would be rewritten; here esipp is imported already, to pretend.
    quiet = ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*quiet, *arguments]))


if __name__ == "__main__":
    sys.exit(main())
