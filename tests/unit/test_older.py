"""Ledgers recorded before: what only their second record of evidence had is in the evidence of their judge."""

import json
from pathlib import Path

from esipp.checks.disruption import Disruption, Proof
from esipp.ledger.codec import judged
from esipp.ledger.reading import read_run
from esipp.ledger.run import Run, Settings
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.health.evidence import HealthEvidence as Health
from tests.unit.world import CHECKS

PROOF = Proof(Disruption.CORDON, "node-a", "no pod was scheduled", 1.0, 2.0, 3.0, 4.0)


def test_what_only_the_second_record_had_is_in_the_evidence(tmp_path: Path) -> None:
    run = Run(Settings("kind-test", image="x", out=str(tmp_path)), say=lambda _: None)
    run.begin(CHECKS[:1], left_out=0)
    run.evidence("health_checks", "disrupted", **PROOF.as_json())
    run.evidence("continuity", "settings", spacing=0.1, timeout=3.0, clock_uncertainty=0.0007, trouble="")
    run.record("judged", **judged("health_checks", Health(changes=7)))
    run.record("judged", **judged("continuity", ContinuityEvidence(serves=7.0)))
    run.end()
    ledger = tmp_path / "ledger.jsonl"
    header, *rest = ledger.read_text().splitlines()
    ledger.write_text("\n".join([json.dumps(json.loads(header) | {"schema": 5}), *rest, ""]))
    read = read_run(tmp_path)
    assert read.unread == {}
    assert read.evidence_of(Health) == Health(changes=7, proofs=[PROOF])
    assert read.evidence_of(ContinuityEvidence) == ContinuityEvidence(
        serves=7.0, spacing=0.1, timeout=3.0, uncertainty=0.0007
    )
