"""Whole runs on a cluster full of secrets: nothing that a run leaves or says holds one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from esipp.base import redaction
from esipp.base.redaction import Redactor
from esipp.checks.catalog import HOUSE
from esipp.cluster.client import ApiError, Cluster
from esipp.ledger.file import read_ledger
from esipp.ledger.run import Run, Settings
from esipp.report.formats import FORMATS
from esipp.testbed.artefacts import CheckEvidence, Collector, collect, write_checks
from esipp.testbed.collectors import cluster_collectors
from tests.unit import secrets_world
from tests.unit.secrets_world import CLOUD_IDS, CONTEXT, EVIDENCE, PLANTED, Answers, assert_clean, leaks, serving
from tests.unit.world import CHECKS

CHECK = "nodeport.local.tcp.ipv4.pod-on-endpoint-node-to-clusterip"


def run(out: Path, kubeconfig: Path, *arguments: str, outside: str = "none") -> subprocess.CompletedProcess[str]:
    """A run of one check with plain pytest, which prints more than ``esipp run``."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "suites/test_suites.py::test_source_ip",
        "-p",
        "no:cacheprovider",
        "-k",
        CHECK,
        "--showlocals",
    ]
    command += ["--context", CONTEXT, "--out", str(out), "--outside", outside, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(
        [*command, *arguments],
        cwd=HOUSE,
        env={**os.environ, **secrets_world.environment(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Redactor:
    """What this process knows, as fresh as in a new one."""
    fresh = Redactor()
    for name in ("_known", "_lines", "_pattern", "cloud"):
        monkeypatch.setattr(redaction.KNOWN, name, getattr(fresh, name))
    return redaction.KNOWN


@pytest.mark.parametrize("fault", [False, True], ids=["refused", "our-own-fault"])
def test_a_run_that_breaks_off_leaves_no_secret(fault: bool, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with serving(Answers(fault), tmp_path) as kubeconfig:
        done = run(out, kubeconfig)
    records = list(read_ledger(out / "ledger.jsonl"))
    assert [each["record"] for each in (records[0], records[-1])] == ["header", "end"], done.stdout
    assert "[redacted: " in records[0]["command"]
    assert records[0]["context"] == CONTEXT, "cloud ids stay unless they are asked to go"
    assert (out / "fault.txt").exists() is fault, done.stdout
    why = records[-1]["why"]
    assert ("does not appear to be an IPv4" if fault else "is refused") in why, why
    assert "[redacted: " in why, "it was there and was hidden"
    if not fault:
        components = [each for each in records if each["record"] == "component"]
        assert any(each["digest"] for each in components)
        facts = {each["name"]: each["decided"] for each in records if each["record"] == "fact"}
        assert "[redacted: " in facts["proxy-mode"]
    assert assert_clean(out) > 3
    assert leaks(done.stdout + done.stderr) == []


def test_cloud_ids_go_on_request(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with serving(Answers(), tmp_path) as kubeconfig:
        done = run(out, kubeconfig, "--redact-cloud-ids", outside="ssh:me@jump-7.example.com")
    records = list(read_ledger(out / "ledger.jsonl"))
    assert records[0]["redact_cloud_ids"] is True
    assert records[0]["context"] == "cloud-id-1"
    assert "--redact-cloud-ids" in records[0]["command"]
    assert "--outside ssh:cloud-host-1" in records[0]["command"]
    assert records[0]["outside"] == "ssh:cloud-host-1"
    assert_clean(out)
    assert_clean(out, {"host outside": "jump-7.example.com"})
    assert_clean(out, dict(zip(CLOUD_IDS, CLOUD_IDS, strict=True)))
    assert leaks(done.stdout + done.stderr) == []


def test_no_artefact_holds_a_secret(tmp_path: Path, known: Redactor, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    with serving(Answers(), tmp_path) as kubeconfig:
        for name, value in secrets_world.environment(kubeconfig).items():
            monkeypatch.setenv(name, value)
        cluster = Cluster(CONTEXT, str(kubeconfig))
        commands = [
            Collector("nodes/a/env.txt", ["env"]),
            Collector("nodes/a/config.txt", ["cat", str(kubeconfig)]),
            Collector("nodes/a/fails.txt", ["sh", "-c", f"echo {PLANTED['token of the kubeconfig']}; exit 1"]),
            Collector(f"{PLANTED['token of the kubeconfig']}.txt", ["true"]),
        ]
        collected = [*cluster_collectors(cluster, "esipp-1", since=1), *commands]
        notes = collect(out / "artefacts", collected)
    found = {"reason": f"saw {PLANTED['AWS key']}", "token": PLANTED["argument in a pod"]}
    check = CheckEvidence("a.row", found, [found], packets=f"payload: {PLANTED['packets']}")
    notes += write_checks(out, [check])
    assert leaks("\n".join(notes)) == []
    assert assert_clean(out) > 10
    proxy = (out / "artefacts/logs/kube-proxy.txt").read_text()
    assert all(each in proxy for each in EVIDENCE)
    assert "[redacted: " in proxy
    pods = json.loads((out / "artefacts/kubernetes/pods.json").read_text())
    assert pods["items"][0]["spec"]["containers"][0]["env"][0]["value"].startswith("[redacted")
    nodes = json.loads((out / "artefacts/kubernetes/nodes.json").read_text())
    assert nodes["items"][0]["spec"]["providerID"].startswith("aws:///")


def begun(out: Path, **more: Any) -> Run:
    made = Run(Settings(CONTEXT, image="x", out=str(out), **more), say=lambda _: None)
    made.begin(CHECKS[:1], left_out=0)
    return made


def test_a_ledger_a_fault_and_its_reports_hold_no_secret(tmp_path: Path, known: Redactor) -> None:
    from esipp.ledger.reading import read_run
    from esipp.report.formats import write_reports

    redaction.learn_kubeconfig({"users": [{"user": {"token": PLANTED["token of the kubeconfig"]}}]})
    made = begun(tmp_path / "run")
    words = "; ".join([*(f"password: '{each}'" for each in PLANTED.values()), PLANTED["token of the kubeconfig"]])
    made.record("component", name="x", kind="dns", image="", digest="sha256:" + "0a" * 32, version="", decided=words)
    made.fact("proxy-mode", "iptables", words)
    made.record("note", about="artefacts", note=words)
    made.evidence("source_ip", "planted", headers={"Authorization": "Bearer " + PLANTED["packets"]}, body=words)
    try:
        raise ApiError(403, "Forbidden", words, "GET /x")
    except ApiError:
        made.keep_fault()
    made.end()
    write_reports(read_run(made.folder))
    files = assert_clean(made.folder)
    assert files >= 2 + len(FORMATS), "every form of the report was looked at"
    assert "ApiError" in (made.folder / "fault.txt").read_text()


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x.bin").write_text(json.dumps({"a": PLANTED["log of a pod"]}))
    with pytest.raises(AssertionError, match=r"deep/x\.bin holds log of a pod"):
        assert_clean(tmp_path)
