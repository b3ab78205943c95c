"""``esipp doctor``: every check is tried, whatever the others say; and nothing is ever created."""

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from esipp.app.cli import main
from esipp.app.doctor.document import age, as_json, document
from esipp.app.doctor.examination import examine_all
from esipp.app.doctor.model import Grade
from esipp.base.customisation import Customisation
from esipp.base.errors import PreflightError
from esipp.base.json import Json
from esipp.checks.check import HOST_NETWORK, Level
from esipp.checks.rights import SLICES, rights
from esipp.cluster.namespaces import owner
from esipp.cluster.rights import all_rights
from esipp.judging.scenario import recorded_as
from esipp.preflight import steps
from esipp.preflight.steps import FLEETING, check_nodes, list_nodes
from esipp.report.rendering.terminal import as_text
from tests.unit.doctor_world import (
    CHECKS,
    HOME,
    IMAGE,
    LISTS,
    Asked,
    cordoned,
    examined,
    grades,
    named,
    of,
    of_run,
    refusal,
    starting,
    the,
)
from tests.unit.rights_world import node
from tests.unit.test_cli import KUBECONFIG

NODES = "/api/v1/nodes"
NOT_READY = "node.kubernetes.io/not-ready"


def text(report: Any) -> str:
    return " ".join(as_text(document(report)).split())


# ------------------------------------------------------------ a fit cluster
def test_a_fit_cluster_is_reported_with_what_a_run_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked())
    assert (report.fit, int(report.exit_code), grades(report, Grade.NO)) == (True, 0, set())
    assert report.work is not None
    assert all(check.hint for check in report.checks if check.grade is not Grade.OK)
    assert not any(check.hint for check in report.checks if check.grade is Grade.OK)
    named_checks = sum(len(checks) for checks in report.work.unsupported.values()) + len(report.work.asked)
    assert named_checks == len(CHECKS)
    said = text(report)
    assert f"{len(report.work.asked)} of {len(CHECKS)} would run" in said
    assert f"at most {report.work.made.balancers} load balancers" in said
    assert "if killed namespace esipp-RUN" in said
    assert "'esipp clean --context home' removes them" in said
    assert f"command esipp run --context home --outside none --image {IMAGE}" in said


def test_what_is_sent_creates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Asked()
    examined(monkeypatch, cluster, replace(HOME, allow_disruptive=True))
    assert {method for method, _, _ in cluster.sent} == {"GET", "POST"}
    posts = [(path, query) for method, path, query in cluster.sent if method == "POST"]
    assert [query for _, query in posts] == [{"dryRun": "All"}] * len(posts)
    assert {path.rpartition("/")[2] for path, _ in posts} == {"namespaces", "services", "pods"}


def test_unsupported_checks_are_counted_by_feature_and_level(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked())
    assert report.work is not None
    ((why, checks),) = [each for each in report.work.unsupported.items() if "needs vantage.outside:" in each[0]]
    core = sum(check.level is Level.CORE for check in checks)
    assert f"{len(checks)} ({core} core" in text(report)
    assert all("vantage.outside" in check.features for check in checks), why
    assert report.left_out >= core > 0
    data = json.loads(as_json(report))
    (group,) = [each for each in data["work"]["unsupported"] if each["why"] == why]
    assert group["levels"]["core"] == core
    assert data["fit"] is True
    assert data["core_rows_left_out"] == report.left_out


def test_fewer_checks_make_fewer_load_balancers(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [check for check in CHECKS if check.id == "nodeport.local.tcp.ipv4.pod-on-other-node-to-endpoint-node"]
    report = examined(monkeypatch, Asked(), checks=checks)
    assert report.work is not None
    assert (len(report.work.asked), report.work.made.balancers) == (1, 0)
    assert "go on to cost" not in text(report)


# ------------------------------------------------------------ what stands in the way
@pytest.fixture
def unreachable(tmp_path: Path) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.replace("PORT", str(port)))
    return str(path)


def test_an_api_server_that_does_not_answer_is_said_once_and_all_else_is_looked_at(
    unreachable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["doctor", "--context", "kind-there", "--kubeconfig", unreachable, "--image", "", "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    assert code == 4
    by_name = {check["name"]: check for check in data["checks"]}
    assert len(by_name) == len(data["checks"]), "once each"
    assert by_name["API server"]["grade"] == "no"
    assert "does not answer" in by_name["API server"]["sentence"]
    assert by_name["image"]["sentence"] == "No echo image is named."
    assert {"disk", "kubectl"} <= by_name.keys()
    assert "they need the API server" in by_name["other checks"]["sentence"]
    assert (data["work"], data["fit"]) == (None, False)


def test_no_such_context(unreachable: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--context", "other", "--kubeconfig", unreachable, "--image", IMAGE]) == 4
    said = capsys.readouterr().out
    assert "no    kubeconfig    There is no context 'other'" in said
    assert "not fit" in said
    assert "run it" not in said


def test_rights_that_are_lacking_are_reported_with_the_checks_that_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {*SLICES, *rights("update", "services")}
    report = examined(monkeypatch, Asked((all_rights() | LISTS) - lost))
    check = the(report, "rights")
    assert check.grade is Grade.NO
    count = sum(check.suite == "convergence" for check in CHECKS)
    assert f"convergence, {count} checks" in check.sentence
    assert "update services (for health_checks" in check.sentence
    assert "docs/rbac.yaml" in check.hint
    assert report.work is not None, "what would run is reported nevertheless"
    assert not report.fit


def test_rights_that_others_need_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [check for check in CHECKS if check.suite == "source_ip"]
    report = examined(
        monkeypatch, Asked((all_rights() | LISTS) - set(recorded_as("convergence").rights)), checks=checks
    )
    assert the(report, "rights").grade is Grade.OK


def test_an_account_without_rights_hears_so_and_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked(()))
    assert {"rights", "nodes"} <= grades(report, Grade.NO)
    assert f"all {len(CHECKS)} checks" in the(report, "rights").sentence
    assert {"quota", "limits", "leftovers"} <= grades(report, Grade.WARN)
    assert report.work is None
    assert "unknown which would run" in text(report)


def test_one_node_only(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked(lists={NODES: [node("a", 1), cordoned("b", 2)]}))
    first, second = of(report, "nodes")
    assert first.grade is Grade.NO
    assert "Only 1 of 2 nodes can run pods (a); a run needs two." in first.sentence
    assert "1 is cordoned" in second.sentence
    assert {"data plane", "load balancer", "families", "pods", "quota"} <= {check.name for check in report.checks}
    assert report.work is None


def test_two_nodes_are_enough_and_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked(lists={NODES: [node("a", 1), node("b", 2)]}))
    assert the(report, "nodes").grade is Grade.WARN
    assert report.fit
    assert report.work is not None
    assert any("nodes.three" in why for why in report.work.unsupported)


@pytest.mark.parametrize("key", sorted(FLEETING))
def test_a_ready_node_that_still_has_the_taint_of_its_start_is_waited_for(key: str) -> None:
    asked = Asked(lists={NODES: [node("a", 1), node("b", 2), starting("c", 3, key)]})
    looks: list[int] = []

    def list_nodes_of(path: str, **_: object) -> list[Json]:
        looks.append(len(looks))
        return [node("a", 1), node("b", 2), starting("c", 3, key) if len(looks) < 2 else node("c", 3)]

    asked.list = list_nodes_of
    _, roles = check_nodes(list_nodes(asked), HOME)
    assert set(roles.values()) == {"a", "b", "c"}, "with two nodes, checks of the third would count as unsupported"
    assert len(looks) == 2


@pytest.mark.parametrize(
    "third", [cordoned("c", 3), starting("c", 3, "example.com/ours"), {**starting("c", 3, NOT_READY), "status": {}}]
)
def test_a_taint_that_stays_and_a_node_that_is_not_ready_are_not_waited_for(
    third: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[str] = []
    monkeypatch.setattr(steps, "converge", lambda look, budget: states.append(look().state))
    list_nodes(Asked(lists={NODES: [node("a", 1), node("b", 2), third]}))
    assert states == ["no such taint"]


def test_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked(), replace(HOME, image=""))
    assert grades(report, Grade.NO) == {"image"}
    assert the(report, "image").sentence == "No echo image is named."
    assert report.work is not None


def test_nothing_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    check = the(examined(monkeypatch, Asked()), "outside")
    assert (check.grade, check.sentence) == (Grade.WARN, "there is no client outside the cluster")
    assert "--outside machine" in check.hint


def test_an_outside_that_is_not_there_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PreflightError("There is no docker network 'x'.", "known: none.")

    monkeypatch.setattr("esipp.preflight.steps.outside_clients.resolve", refuse)
    check = the(examined(monkeypatch, Asked(), replace(HOME, outside="docker:x")), "outside")
    assert (check.grade, check.sentence) == (Grade.NO, "There is no docker network 'x'.")


def test_a_provider_that_contradicts_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    gke = [node(name, number) for number, name in enumerate("abc", 1)]
    for each in gke:
        each["metadata"]["labels"] = {"cloud.google.com/gke-nodepool": "x"}
    report = examined(monkeypatch, Asked(lists={NODES: gke}), replace(HOME, provider="aws-clb"))
    profile, contradiction = of(report, "load balancer")
    assert profile.sentence.startswith("aws-clb (--provider; detected: gke")
    assert "class proxy" in profile.sentence
    assert contradiction.grade is Grade.WARN
    assert "--provider says aws-clb, which belongs to" in contradiction.sentence
    assert "the nodes are on gke" in contradiction.sentence
    assert report.work is not None
    assert any("aws-clb does not support SCTP or UDP" in why for why in report.work.unsupported), (
        "what the user names counts"
    )


def test_a_feature_that_there_is_not_is_reported_and_all_else_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked(), replace(HOME, without=("nonsense",)))
    assert grades(report, Grade.NO) == {"features"}
    assert the(report, "features").sentence == "--without nonsense: there is no such feature."
    assert report.work is not None


def test_a_server_that_falls_silent_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Asked()
    cluster.silent = NODES
    report = examined(monkeypatch, cluster)
    assert grades(report, Grade.NO) == {"nodes"}
    assert "stopped answering" in the(report, "nodes").sentence
    assert {"rights", "services", "quota"} <= {check.name for check in report.checks}


def test_a_server_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Asked()
    monkeypatch.setattr(cluster, "version", lambda: "v1.3.9")
    report = examined(monkeypatch, cluster)
    assert the(report, "API server").sentence.startswith("Kubernetes 1.3 cannot preserve")
    assert not report.fit


def test_a_pull_secret_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    customisation = Customisation(pull_secret="there/pull")  # noqa: S106 - a name, no password
    report = examined(monkeypatch, Asked(), replace(HOME, customisation=customisation))
    check = the(report, "pull secret")
    assert check.grade is Grade.NO
    assert "lacks these rights" in check.sentence


def test_a_cluster_without_agents_is_asked_less(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked(dry={"namespaces": refusal("no such label")}))
    assert the(report, "namespace").grade is Grade.WARN
    assert report.work is not None
    assert any(f"needs {HOST_NETWORK}" in why for why in report.work.unsupported)
    assert report.fit


# ------------------------------------------------------------ leftovers
def test_what_earlier_runs_left_is_reported_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esipp.app.doctor.examination.time.time", lambda: 1_800_000_000.0)
    # by its command line a worker of pytest's is nobody of ours
    monkeypatch.setattr("esipp.testbed.leftovers.is_alive", lambda name: name == owner())
    old = of_run("0101-000000-aaaa", "2027-01-15T05:00:00Z", "elsewhere/1")  # three hours before
    mine = of_run("0101-000000-bbbb", "2027-01-15T08:00:00Z", owner())
    report = examined(monkeypatch, Asked(lists={"/api/v1/namespaces": [named("default"), old, mine]}))
    first, second = report.left_over
    assert (first.age, first.alive, second.alive) == (10_800.0, False, True)
    said = text(report)
    assert "leftover namespace esipp-0101-000000-aaaa of run 0101-000000-aaaa, 3 h old: " in said
    assert "esipp clean --context home --run 0101-000000-aaaa" in said
    check = the(report, "leftovers")
    assert check.grade is Grade.WARN
    assert check.sentence.startswith("1 from earlier runs")


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, ""), (5.0, "5 s"), (60.0, "1 min"), (7200.0, "2 h"), (86400.0 * 3, "3 d")]
)
def test_ages(seconds: float | None, words: str) -> None:
    assert age(seconds) == words


# ------------------------------------------------------------ the command line
def test_the_command_that_would_run_is_reported_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def examine(settings: Any, checks: Any, asked: list[str]) -> Any:
        report = examine_all(replace(settings, context="nobody"), checks, asked)
        seen.append(report.command)
        return report

    monkeypatch.setattr("esipp.app.doctor.examination.examine_all", examine)
    words = ["--samples", "20", "--seed", "7", "--junit", "a b.xml", "--suite", "source_ip", "nodeport.local"]
    assert main(["doctor", "--context", "c", "--kubeconfig", "/nowhere", "--image", IMAGE, *words]) == 4
    assert seen == [
        "esipp run --context nobody --kubeconfig /nowhere --samples 20"
        f" --image {IMAGE} '--junit=a b.xml' --seed=7 --suite=source_ip nodeport.local"
    ]


def test_what_wraps_esipp_wraps_the_cleaning_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESIPP_REPEAT", "./ci/enter esipp run --context kind-esipp")
    assert HOME.clean == "./ci/enter esipp clean --context kind-esipp"
    monkeypatch.delenv("ESIPP_REPEAT")
    assert replace(HOME, kubeconfig="a b").clean == "esipp clean --context home --kubeconfig 'a b'"
    assert replace(HOME, as_user="jane").clean == "esipp clean --context home --as jane"
    assert replace(HOME, kubeconfig="made", in_cluster=True).clean == "esipp clean --in-cluster"


@pytest.mark.parametrize(
    "words", [[], ["--context", "c", "no-such-row"], ["--context", "c", "--suite", "convergence", "nodeport.local.tcp"]]
)
def test_wrong_usage_is_4(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *words]) == 4
    assert "hint:" in capsys.readouterr().err


def test_no_secret_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    report = examined(monkeypatch, Asked(dry={"pods": refusal("denied: token=abcdef0123456789")}))
    for said in (text(report), as_json(report)):
        assert "denied" in said
        assert "abcdef0123456789" not in said


# ------------------------------------------------------------ large clusters
def test_of_many_nodes_it_says_how_many_would_carry_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [node(f"n{number:03}", number % 250 + 1) for number in range(300)]
    report = examined(monkeypatch, Asked(lists={NODES: many}), replace(HOME, seed=7, sample_nodes=20))
    assert "20 of 300 would run an agent, --sample-nodes 20: nodes with a role" in the(report, "nodes").sentence
    assert "at random by --seed 7" in the(report, "nodes").sentence
    assert "(20 of them agents, for 300 nodes)" in text(report)
    assert "estimated for 10 agents; the effect of more agents was not measured" in text(report)
    assert "--sample-nodes 20" in report.command
    few = examined(monkeypatch, Asked())
    assert "agent" not in the(few, "nodes").sentence


def test_internal_load_balancers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    customisation = Customisation(internal=(("cloud.example.com/internal", "true"),))
    report = examined(monkeypatch, Asked(), replace(HOME, provider="aks", customisation=customisation))
    assert the(report, "VIPs").sentence.endswith("; internal, by cloud.example.com/internal=true")
    assert "--internal" in report.command
    assert "internal" not in the(examined(monkeypatch, Asked()), "VIPs").sentence


def test_a_dry_run_examines_as_doctor_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--dry-run", "--context", "nobody", "--kubeconfig", "/nowhere", "--image", IMAGE]) == 4
    out = " ".join(capsys.readouterr().out.split())
    assert "no kubeconfig" in out
    assert "nothing was created" in out
