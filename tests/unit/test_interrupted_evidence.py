"""An interrupt in a scenario: its evidence so far is in the ledger, for reports; no check is judged by it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.checks.api import Requests
from esipp.checks.catalog import all_checks
from esipp.checks.check import Status, checks_about
from esipp.judging.scenario import scenario_of
from esipp.ledger.rejudging import Bench, read_past
from esipp.ledger.run import Run, Settings
from esipp.scenarios.api import run as api
from esipp.scenarios.api.judge import ApiEvidence
from esipp.scenarios.context import Context

CHECK = next(check for check in checks_about(Requests, all_checks()) if not check.features)


@pytest.mark.parametrize("began", [True, False])
def test_what_was_gathered_before_an_interrupt_is_kept_and_judges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began: bool
) -> None:
    seen = ApiEvidence(answers={"a chain": {}})

    def observe(context: Context) -> None:
        if began:
            context.gathered = lambda: seen
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "observe", observe)
    run = Run(Settings("kind-test", image="x", out=str(tmp_path)), say=lambda _: None)
    run.begin([CHECK], left_out=0)
    testbed: Any = SimpleNamespace(batches=SimpleNamespace(scenarios={}))
    findings: Any = SimpleNamespace(features={}, facts={}, ways={})
    context = Context(run, findings, {"testbed": testbed}.get)
    context.gathered = lambda: "that of another scenario"
    with pytest.raises(KeyboardInterrupt):
        context.observe(scenario_of(CHECK))
    run.interrupted = True
    run.end()
    past = read_past(tmp_path)
    assert past.run.trouble == []
    assert past.run.evidence_of(ApiEvidence) == (seen if began else None)
    verdict = Bench(past, [CHECK]).verdict(CHECK)
    assert verdict.status is Status.INCONCLUSIVE
    assert ("broke off while" if began else "has no evidence") in verdict.reason
