"""What a session of tests/broken does before and between breaks; without a cluster."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from esipp.cluster.client import ApiError
from tests.broken import baselines, controllers, proxies
from tests.broken.baselines import Baseline, Baselines, forget_the_cluster
from tests.broken.breakage import RunOptions
from tests.broken.nodes import OURS, Nodes, Result

HALE, ILL = RunOptions(("source_ip",)), RunOptions(("compatibility",))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[RunOptions]:
    """What was asked of the healthy cluster; of one suite it fails."""
    done: list[RunOptions] = []

    def qualify(_: object, run: RunOptions, __: Path) -> Result:
        done.append(run)
        well = run.suites == HALE.suites
        return Result(0 if well else 1, {"a": "pass" if well else "fail"}, 0.0, "a check fails", seconds=34.0)

    monkeypatch.setattr(baselines, "qualify", qualify)
    monkeypatch.delenv(baselines.HEALTHY, raising=False)
    return done


def asked_of(folder: Path) -> Baselines:
    cluster: Any = None
    nodes = _Nodes(cluster, None, (), {}, {}, {})
    return Baselines(nodes, folder, [HALE, ILL])


class _Nodes(Nodes):
    @property
    def lock(self) -> Path:
        return Path("/dev/null")


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "turn", lambda *_, **__: nullcontext())


def test_a_healthy_run_that_fails_costs_only_the_breaks_that_need_it(ran: list[RunOptions], tmp_path: Path) -> None:
    healthy = asked_of(tmp_path)
    for _ in range(2):
        with pytest.raises(AssertionError, match="a check fails"):
            healthy.of(ILL)
        assert healthy.of(replace(HALE, checks=("nodeport.",))) == Baseline({"a": "pass"}), "no time: it asked more"
    assert ran == [ILL, HALE], "each is run once, and for all"
    assert healthy.of(HALE).seconds == 34.0


def test_each_break_hears_of_a_healthy_run_that_breaks_off(
    ran: list[RunOptions], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(baselines, "own_balancer", lambda *_: 1 / 0)
    for _ in range(2):
        with pytest.raises(AssertionError, match="ZeroDivisionError"):
            asked_of(tmp_path).of(HALE)
    assert ran == []


def test_a_session_takes_no_word_of_an_earlier_one(ran: list[RunOptions], tmp_path: Path) -> None:
    asked_of(tmp_path).of(HALE)
    (tmp_path / "healed").touch()
    (tmp_path / "sample.score.json").touch()
    forget_the_cluster(tmp_path)
    assert not (tmp_path / "healed").exists()
    assert (tmp_path / "sample.score.json").exists(), "scores are of breaks, and stay"
    asked_of(tmp_path).of(HALE)
    assert ran == [HALE, HALE]


def test_a_run_without_a_feature_is_no_baseline_of_breaks_that_need_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = [
        {"record": "header", "rows": [{"id": "a.x", "suite": "changes"}, {"id": "a.y", "suite": "changes"}]},
        {"record": "verdict", "id": "a.x", "status": "unsupported", "left_out": True},
        {"record": "verdict", "id": "a.y", "status": "pass", "left_out": False},
    ]
    (tmp_path / "ledger.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    monkeypatch.setenv(baselines.HEALTHY, str(tmp_path))
    run = RunOptions(("changes",), ("a.x",))
    assert baselines.recorded(replace(run, disruptive=True)) == {}
    both = {"a.x": "unsupported", "a.y": "pass"}
    assert [baselines.recorded(run), baselines.recorded(replace(run, checks=("a.y",), disruptive=True))] == [both, both]


class Api:
    """An API server with objects at paths; ``log`` is what was changed."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.objects, self.log = objects, list[str]()

    def request(self, method: str, path: str) -> Any:
        if path not in self.objects:
            raise ApiError(404, "NotFound", "not found", f"{method} {path}")
        return self.objects[path]

    def list(self, path: str, **_: str) -> Any:
        return self.request("GET", path)

    def patch(self, path: str, body: dict[str, Any], _: str) -> None:
        of = self.objects[path]
        of["data"] |= body.get("data", {})
        notes = {**of["metadata"].get("annotations", {}), **body.get("metadata", {}).get("annotations", {})}
        of["metadata"]["annotations"] = {name: result for name, result in notes.items() if result is not None}
        self.log.append("patched")

    def delete(self, path: str) -> None:
        self.log.append(path)


def nodes(api: Api) -> Nodes:
    cluster: Any = api
    return Nodes(cluster, None, (), {}, {}, {})


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes on which kube-proxy was started anew."""
    done: list[str] = []
    monkeypatch.setattr(proxies, "start_anew", lambda _, node: done.append(node))
    return done


def test_a_session_that_was_killed_leaves_no_configuration_of_kube_proxy(started: list[str]) -> None:
    api = Api({proxies.CONFIG: {"metadata": {}, "data": {proxies.KEY: "mode: iptables\n"}}})
    killed = proxies.syncing_every(8, nodes(api), "worker2")
    killed.__enter__()
    api.objects[proxies.CONFIG]["data"][proxies.KEY] = "mode: iptables\niptables: {minSyncPeriod: 8s}\n"
    proxies.heal(nodes(api))
    assert api.objects[proxies.CONFIG] == {"metadata": {"annotations": {}}, "data": {proxies.KEY: "mode: iptables\n"}}
    assert started == ["worker2", "worker2"]
    proxies.heal(nodes(api))
    assert started == ["worker2", "worker2"], "nothing is left to heal"


def test_a_break_that_ends_leaves_nothing_to_heal(started: list[str]) -> None:
    api = Api({proxies.CONFIG: {"metadata": {}, "data": {proxies.KEY: "mode: iptables\n"}}})
    with proxies.syncing_every(8, nodes(api), "worker2"):
        result = api.objects[proxies.CONFIG]["metadata"]["annotations"][proxies.MARK]
        assert json.loads(result) == {"node": "worker2", "config": "mode: iptables\n"}
    assert api.objects[proxies.CONFIG]["metadata"]["annotations"] == {}


def test_where_no_kube_proxy_is_there_is_nothing_to_heal(started: list[str]) -> None:
    proxies.heal(nodes(Api({})))
    assert started == []


def test_policies_of_admission_that_were_left_go() -> None:
    ours, theirs = ({"metadata": {"name": name}} for name in (f"{OURS}-loses-affinity", "somebody-elses"))
    policies = f"{controllers.GROUP}/mutatingadmissionpolicies"
    api = Api({policies: [ours, theirs], "/api/v1/namespaces": [theirs, ours]})  # and no such bindings
    controllers.heal(nodes(api))
    assert api.log == [f"{policies}/{OURS}-loses-affinity", f"/api/v1/namespaces/{OURS}-loses-affinity"]


def test_addresses_that_a_killed_session_held_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = (
        {"metadata": {"name": name, "finalizers": [finalizer]}}
        for name, finalizer in (("10.96.0.7", controllers.KEEPS), ("10.96.0.8", "somebody/elses"))
    )
    api, patched = Api({controllers.ADDRESSES: [ours, theirs], "/api/v1/namespaces": []}), list[Any]()
    monkeypatch.setattr(api, "patch", lambda *what: patched.append(what))
    controllers.heal(nodes(api))
    assert patched == [(f"{controllers.ADDRESSES}/10.96.0.7", {"metadata": {"finalizers": []}}, "merge-patch")]
