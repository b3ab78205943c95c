"""Disruptions prove that they happened, are undone whatever happens, and touch only what is ours."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
import yaml

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop, StoppedError, undisturbed
from esipp.base.json import Json
from esipp.base.waiting import Budget
from esipp.checks.disruption import LONGEST, Disruption, Proof, features_of
from esipp.checks.health import Place, Situation
from esipp.checks.model import Family
from esipp.cluster.client import Cluster
from esipp.cluster.namespaces import owner
from esipp.disruption import actions as deeds
from esipp.disruption import addresses, daemon_sets, disruptor, joining, kube_proxy, restarts, rollouts, services, shell
from esipp.disruption.addresses import another
from esipp.disruption.agents import AGENTS, STOPPED, pods_feature
from esipp.disruption.daemon_sets import CHANGED_BY
from esipp.disruption.disruptor import Disruptor
from esipp.disruption.marks import CORDONED_BY, RefusedError
from esipp.disruption.watchdog import watch
from esipp.disruption.watchdog_client import WatchdogClient
from esipp.ledger.run import Settings
from esipp.preflight.preflight import Findings
from esipp.probing import new_node
from esipp.scenarios.health.objects import service_name
from esipp.scenarios.health.probes import Asker as HealthAsker
from esipp.scenarios.health.run import ask_cordoned
from esipp.scenarios.timeouts import TIMEOUTS
from tests.unit.fake_nodes import CILIUM, EXCLUDED, PROXIES, PROXY_CONFIG, FakeNode, FakeNodes

OURS = {"esipp.dev__run": "r1"}
SHORT = Budget("something, in a test", 0.6, need=1, spacing=0.05)


@pytest.fixture
def fake() -> FakeNodes:
    return FakeNodes()


@pytest.fixture
def cluster(fake: FakeNodes, tmp_path: Path) -> Iterator[Cluster]:
    with fake.served(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def shell_of() -> dict[str, FakeNode]:
    """The nodes that can be reached past Kubernetes."""
    return {}


Make = Callable[..., Disruptor]


class WatchdogThread:
    """The watchdog as a thread: a Python that starts and imports for each test is most of what the test costs."""

    def __init__(self) -> None:
        lines, told = os.pipe()
        told_back, answers = os.pipe()
        self.stdin, self.stdout = os.fdopen(told, "wb"), os.fdopen(told_back, "rb")
        self._thread = threading.Thread(target=self._watch, args=(lines, answers), daemon=True)
        self._thread.start()

    @staticmethod
    def _watch(lines: int, answers: int) -> None:
        with os.fdopen(lines) as heard, os.fdopen(answers, "w") as said:
            watch(heard, said)

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "a watchdog with work left is for a process: watchdog_process"


@pytest.fixture
def watchdog_process() -> None:
    """For tests whose watchdog has to be a process, as that of a run is; see test_disruption_watchdog.py as well."""


@pytest.fixture
def make(
    cluster: Cluster, shell_of: dict[str, FakeNode], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    made = []
    if "watchdog_process" not in request.fixturenames:
        monkeypatch.setattr(WatchdogClient, "_start", lambda _: WatchdogThread())

    def build(
        allowed: bool = True, guard: Callable[[], AbstractContextManager[None]] = nullcontext, **more: Any
    ) -> Disruptor:
        def on_node(node: str, command: list[str]) -> list[str] | None:
            return [*shell_of[node].way, *command] if node in shell_of else None

        features, reference = {"disruptive": SimpleNamespace(present=allowed)}, more.pop("reference", None)
        findings = SimpleNamespace(features=features, on_node=on_node, reference=reference)
        made.append(Disruptor(cluster, cast(Findings, findings), "r1", more.pop("stop", Stop()), guard, **more))
        return made[-1]

    yield build
    for each in made:
        each.close()


def nothing() -> None:
    """What is done meanwhile, where it does not matter."""


def is_cordoned(fake: FakeNodes, name: str = "a") -> bool:
    return bool(fake.nodes[name]["spec"].get("unschedulable"))


# ------------------------------------------------------------------------------------------------- cordon and exclude
@pytest.mark.usefixtures("watchdog_process")
def test_a_cordon_is_in_effect_meanwhile_and_undone(fake: FakeNodes, make: Make) -> None:
    before, seen, said = fake.plain(), [], []
    proof = make(say=said.append).perform(
        Disruption.CORDON, "a", lambda: seen.append((is_cordoned(fake), fake.marked()))
    )
    assert seen == [(True, {"a": {CORDONED_BY: owner()}})]
    assert fake.plain() == before
    assert proof.began < proof.happened < proof.ending < proof.undone
    assert proof.words == "the Node object is cordoned by this run; the change lasted; undone"
    assert said == ["disruption: cordon of a begins", "disruption: cordon of a is undone"]


def test_the_exclusion_is_a_label(fake: FakeNodes, make: Make) -> None:
    before, seen = fake.plain(), []
    make().perform(Disruption.EXCLUDE, "b", lambda: seen.append(dict(fake.nodes["b"]["metadata"]["labels"])))
    assert seen == [EXCLUDED]
    assert fake.plain() == before


def test_a_proof_is_plain_data() -> None:
    proof = Proof(Disruption.KUBELET, "a", "it was so", 1.0, 2.0, 3.0, 4.0)
    times = {"began": 1.0, "happened": 2.0, "ending": 3.0, "undone": 4.0}
    assert proof.as_json() == {"disruption": "kubelet", "node": "a", "words": "it was so", **times}


def test_nothing_is_disturbed_unless_it_is_allowed(fake: FakeNodes, make: Make) -> None:
    for what in Disruption:
        with pytest.raises(HarnessError) as raised:
            make(allowed=False).perform(what, "a", nothing, selector="app=web")
        assert raised.value.hint == "it needs --allow-disruptive."
    assert fake.requests == []


@pytest.mark.parametrize("what", [Disruption.CORDON, Disruption.DRAIN, Disruption.EXCLUDE])
def test_what_was_so_before_stays_so(what: Disruption, fake: FakeNodes, make: Make) -> None:
    fake.nodes["a"]["spec"]["unschedulable"] = True
    fake.nodes["a"]["metadata"]["labels"] |= EXCLUDED
    before = fake.plain()
    with pytest.raises(RefusedError, match=r"already .* by someone else"):
        make().perform(what, "a", nothing, selector="app=web")
    assert fake.plain() == before


def test_disruptions_nest_and_the_same_one_does_not(fake: FakeNodes, make: Make) -> None:
    before, seen = fake.plain(), []
    disturb = make()

    def twice() -> None:
        with pytest.raises(RefusedError, match=f"already .* by run {owner()}"):
            disturb.perform(Disruption.CORDON, "a", nothing)
        seen.append(is_cordoned(fake))  # the inner one undid nothing
        disturb.perform(Disruption.CORDON, "b", lambda: seen.append(is_cordoned(fake) and is_cordoned(fake, "b")))

    disturb.perform(Disruption.CORDON, "a", twice)
    assert seen == [True, True]
    assert fake.plain() == before


@pytest.mark.parametrize("broken", [KeyError("x"), HarnessError("no", "?"), KeyboardInterrupt(), StoppedError("end")])
def test_it_is_undone_whatever_happens_meanwhile(broken: BaseException, fake: FakeNodes, make: Make) -> None:
    before = fake.plain()

    def breaks() -> None:
        raise broken

    with pytest.raises(type(broken)):
        make().perform(Disruption.CORDON, "a", breaks)
    assert fake.plain() == before


def test_a_session_that_ends_undoes_it(fake: FakeNodes, make: Make) -> None:
    stop, before = Stop(), fake.plain()
    stop.set()
    with pytest.raises(StoppedError):
        make(stop=stop).perform(Disruption.CORDON, "a", nothing)
    assert fake.plain() == before


@pytest.mark.usefixtures("watchdog_process")
def test_signals_do_not_disturb_doing_and_undoing(fake: FakeNodes, make: Make) -> None:
    before, patched = fake.plain(), []

    def interrupt(method: str, path: str, body: dict[str, Any]) -> None:
        if method == "PATCH":
            patched.append(path)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)

    fake.before = interrupt
    make(guard=undisturbed).perform(Disruption.CORDON, "a", nothing)
    assert len(patched) == 2
    assert fake.plain() == before


def test_in_a_thread_no_signal_comes_and_none_can_be_kept_off(fake: FakeNodes, make: Make) -> None:
    disturb, proofs = make(guard=undisturbed), []
    thread = threading.Thread(target=lambda: proofs.append(disturb.perform(Disruption.CORDON, "a", nothing)))
    thread.start()
    thread.join()
    assert len(proofs) == 1


def test_what_others_undo_meanwhile_did_not_last(fake: FakeNodes, make: Make) -> None:
    with pytest.raises(HarnessError, match="should be cordoned: it did not remain so"):
        make().perform(Disruption.CORDON, "a", lambda: fake.nodes["a"]["spec"].clear())
    assert fake.marked() == {}


def test_an_uncordon_of_ours_spares_what_another_run_marked_since(fake: FakeNodes, make: Make) -> None:
    def taken_over() -> None:
        fake.nodes["a"]["metadata"]["annotations"][CORDONED_BY] = "other/2"

    with pytest.raises(HarnessError):
        make().perform(Disruption.CORDON, "a", taken_over)
    assert fake.marked() == {"a": {CORDONED_BY: "other/2"}}
    assert is_cordoned(fake)


def test_a_server_that_ignores_the_change_is_found_out(fake: FakeNodes, make: Make) -> None:
    fake.before = lambda method, path, body: (200, {}) if method == "PATCH" else None
    with pytest.raises(HarnessError, match="should be cordoned: it is not"):
        make().perform(Disruption.CORDON, "a", nothing)


def test_who_writes_at_the_same_time_loses_nothing(fake: FakeNodes, make: Make) -> None:
    conflicts = ["x", "y"]

    def meddle(method: str, path: str, body: dict[str, Any]) -> None:
        if method == "PATCH" and conflicts:
            fake.nodes["a"]["metadata"]["labels"][conflicts.pop()] = ""
            fake.nodes["a"]["metadata"]["resourceVersion"] += "1"

    fake.before = meddle
    make().perform(Disruption.CORDON, "a", nothing)
    assert fake.nodes["a"]["metadata"]["labels"] == {"x": "", "y": ""}
    assert not is_cordoned(fake)


@pytest.mark.usefixtures("watchdog_process")
def test_what_cannot_be_undone_is_reported_with_what_helps(
    fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disruptor, "UNDONE", SHORT)

    def sick() -> None:
        fake.before = lambda method, path, body: (500, {"message": "etcd is busy"}) if method == "PATCH" else None

    disturb = make()
    with pytest.raises(
        HarnessError, match=r"Cannot undo the disruption cordon of a; .esipp clean --context home.*etcd is busy"
    ):
        disturb.perform(Disruption.CORDON, "a", sick)
    assert is_cordoned(fake)
    fake.before = lambda method, path, body: None
    disturb.close()  # the watchdog goes on trying
    assert not is_cordoned(fake)


@pytest.mark.usefixtures("watchdog_process")
def test_an_interrupt_stays_one(fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disruptor, "UNDONE", SHORT)

    def sick() -> None:
        fake.before = lambda method, path, body: (500, {"message": "no"}) if method == "PATCH" else None
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        make().perform(Disruption.CORDON, "a", sick)
    assert "Cannot undo the disruption" in raised.value.__notes__[0]
    fake.before = lambda method, path, body: None


def test_the_taint_of_a_cordon_goes_too(fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deeds, "UNTAINTED", SHORT)
    fake.nodes["a"]["spec"]["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    with pytest.raises(HarnessError, match="keeps the taint of the cordon"):
        make().perform(Disruption.CORDON, "a", nothing)
    assert not is_cordoned(fake)


def test_both_nodes_of_the_health_checks_are_cordoned_at_once(fake: FakeNodes, make: Make) -> None:
    before, seen = fake.plain(), []

    class Asker:
        testbed = SimpleNamespace(services={service_name(Situation.ONE_POD): {"spec": {"healthCheckNodePort": 7}}})
        places: ClassVar = {Place.ENDPOINT_NODE: "a", Place.BARE_NODE: "b"}
        timeouts = TIMEOUTS

        def on_nodes(self, *asked: object, **how: object) -> dict[Any, Any]:
            seen.append((is_cordoned(fake, "a"), is_cordoned(fake, "b")))
            return {}

    answers, proofs = ask_cordoned(cast(HealthAsker, Asker()), make())
    assert (answers, seen) == ({}, [(True, True)])
    assert {proof.node for proof in proofs} == {"a", "b"}
    assert fake.plain() == before


# -------------------------------------------------------------------------------------------------------------- drain
def test_only_our_pods_of_the_node_are_evicted(fake: FakeNodes, make: Make) -> None:
    fake.add_pod("web-1", "a", namespace="esipp-r1", **OURS, app="web")
    fake.add_pod("web-2", "b", namespace="esipp-r1", **OURS, app="web")
    fake.add_pod("other", "a", namespace="esipp-r1", **OURS, app="db")
    fake.add_pod("no-run's", "a", namespace="esipp-r1", app="web")
    fake.add_pod("tenant", "a", namespace="shop", app="web")
    proof = make().perform(Disruption.DRAIN, "a", nothing, selector="app=web")
    assert set(fake.pods) == {"esipp-r1/web-2", "esipp-r1/other", "esipp-r1/no-run's", "shop/tenant"}
    assert "evicted web-1" in proof.words
    assert "POST /api/v1/namespaces/esipp-r1/pods/web-1/eviction" in fake.requests
    assert not is_cordoned(fake)


def test_a_drain_of_everything_is_refused(fake: FakeNodes, make: Make) -> None:
    fake.add_pod("web-1", "a", namespace="esipp-r1", **OURS, app="web")
    with pytest.raises(HarnessError, match="needs a selector"):
        make().perform(Disruption.DRAIN, "a", nothing)
    assert fake.requests == []


def test_a_drain_waits_for_a_disruption_budget_and_needs_pods(
    fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deeds, "EVICTED", SHORT)
    refusals = [(429, {"message": "the disruption budget"})]
    fake.before = lambda method, path, body: refusals.pop() if path.endswith("eviction") and refusals else None
    fake.add_pod("web-1", "a", namespace="esipp-r1", **OURS, app="web")
    make().perform(Disruption.DRAIN, "a", nothing, selector="app=web")
    with pytest.raises(HarnessError, match="has no pod to evict"):
        make().perform(Disruption.DRAIN, "a", nothing, selector="app=web")
    assert not is_cordoned(fake)


def test_an_eviction_that_does_nothing_is_found_out(
    fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deeds, "EVICTED", SHORT)
    fake.before = lambda method, path, body: (201, {}) if path.endswith("eviction") else None
    fake.add_pod("web-1", "a", namespace="esipp-r1", **OURS, app="web")
    with pytest.raises(HarnessError, match="web-1: it is not terminating"):
        make().perform(Disruption.DRAIN, "a", nothing, selector="app=web")
    assert not is_cordoned(fake)


# ----------------------------------------------------------------------------------------------------------- restarts
def test_kube_proxy_is_another_pod_then(fake: FakeNodes, make: Make) -> None:
    for node in ("a", "b"):
        fake.add_pod(f"kube-proxy-{node}", node, namespace="kube-system", daemon_set="d", k8s_app="kube-proxy")
    proof = make().perform(Disruption.KUBE_PROXY, "a", nothing)
    assert set(fake.pods) == {"kube-system/kube-proxy-a-1", "kube-system/kube-proxy-b"}
    assert "kube-proxy-a (uid uid-kube-proxy-a) was replaced by kube-proxy-a-1 (uid uid-kube-proxy-a-1)" in proof.words


@pytest.mark.parametrize(("ago", "before"), [(5.0, 5.0), (-5.0, 0.0), (3600.0, 60.0), (None, 0.0)])
def test_it_is_told_when_the_next_pod_started(ago: float | None, before: float) -> None:
    """The node's clock says it, which may differ: it is never before its predecessor ended, and not in the future."""
    now = time.monotonic()
    at = None if ago is None else datetime.fromtimestamp(time.time() - ago, UTC).isoformat()
    pod = {"status": {"containerStatuses": [{"state": {"running": {"startedAt": at} if at else {}}}]}}
    assert now - before - 0.01 <= restarts.started(pod, now - 60.0) <= time.monotonic() - before + 0.01


def test_speakers_are_restarted_everywhere_one_after_the_other(fake: FakeNodes, make: Make) -> None:
    for node in ("a", "b"):
        fake.add_pod(f"s-{node}", node, namespace="m", daemon_set="d", app="metallb", component="speaker")
    fake.add_pod("no-speaker", "a", namespace="m", app__x="metallb")
    proof = make().perform(Disruption.SPEAKER, "", nothing)
    assert set(fake.pods) == {"m/s-a-1", "m/s-b-2", "m/no-speaker"}
    assert (proof.node, proof.words.count("was replaced by"), len(proof.started)) == ("all", 2, 2)


def test_pods_that_nobody_brings_again_are_left_alone(fake: FakeNodes, make: Make) -> None:
    fake.add_pod("kube-proxy-a", "a", namespace="kube-system", k8s_app="kube-proxy")
    with pytest.raises(HarnessError, match="There is no pod of kube-proxy on a"):
        make().perform(Disruption.KUBE_PROXY, "a", nothing)
    assert set(fake.pods) == {"kube-system/kube-proxy-a"}


def test_a_pod_that_does_not_come_again_is_reported(
    fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "AGAIN", SHORT)
    fake.abandoned = True
    fake.add_pod("kube-proxy-a", "a", namespace="kube-system", daemon_set="d", k8s_app="kube-proxy")
    with pytest.raises(HarnessError, match="The replacement of pod kube-proxy-a"):
        make().perform(Disruption.KUBE_PROXY, "a", nothing)


def test_a_delete_that_does_nothing_is_found_out(fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "GONE", SHORT)
    fake.add_pod("kube-proxy-a", "a", namespace="kube-system", daemon_set="d", k8s_app="kube-proxy")
    fake.before = lambda method, path, body: (200, {}) if method == "DELETE" else None
    with pytest.raises(HarnessError, match="does not terminate"):
        make().perform(Disruption.KUBE_PROXY, "a", nothing)


# ------------------------------------------------------------------------------------------ kube-proxy on all nodes
CONFIG = "kind: KubeProxyConfiguration\nmode: iptables\nnodePortAddresses: null"


def proxies(fake: FakeNodes) -> dict[str, str]:
    """What the kube-proxy of each node says of itself."""
    pods = [pod for pod in fake.pods.values() if pod["metadata"]["labels"].get("k8s-app") == "kube-proxy"]
    return {pod["spec"]["nodeName"]: fake.logs[pod["metadata"]["name"]] for pod in pods}


@pytest.mark.parametrize(
    ("config", "now", "before"),
    [
        (CONFIG, "nftables", "iptables"),
        ('mode: ""\nkind: KubeProxyConfiguration', "nftables", "iptables"),
        ("mode: nftables\nkind: KubeProxyConfiguration\n", "iptables", "nftables"),
        ("kind: KubeProxyConfiguration\n", "nftables", "iptables"),
    ],
)
def test_kube_proxy_is_in_another_mode_on_all_nodes_and_back(
    config: str, now: str, before: str, fake: FakeNodes, make: Make
) -> None:
    fake.add_proxies(config)
    was, seen = fake.plain_objects(), []
    proof = make().perform(Disruption.PROXY_MODE, "a", lambda: seen.append((proxies(fake), deepcopy(fake.objects))))
    ((said, objects),) = seen
    assert set(said) == {"a", "b", "c"}
    assert all(f"Using {now} Proxier" in each for each in said.values())
    assert all(objects[path]["metadata"]["annotations"][CHANGED_BY] == owner() for path in (PROXY_CONFIG, PROXIES))
    assert fake.plain_objects() == was
    assert all(f"Using {before} Proxier" in each for each in proxies(fake).values())
    assert proof.node == "all"
    assert f"kube-proxy v1.36.3 in {now} mode on 3 nodes, one node after the other" in proof.words
    assert f"kube-proxy v1.36.3 in {before} mode on 3 nodes again" in proof.words


SECTIONS = (
    "iptables:\n  masqueradeBit: null\n  minSyncPeriod: 1s # usual\n  syncPeriod: 30s\nkind: KubeProxyConfiguration\n"
    'mode: ""\nnftables:\n  minSyncPeriod: 2s\n'
)


@pytest.mark.parametrize(
    "config",
    [
        SECTIONS,
        SECTIONS.replace('""', "nftables").removesuffix("\n"),
        SECTIONS.replace('""', "ipvs"),
        'mode: ""\niptables: {minSyncPeriod: 1s}\nkind: KubeProxyConfiguration\n',
        "kind: KubeProxyConfiguration\n",
    ],
    ids=["the usual mode", "nftables", "no section", "a section of one line", "no mode"],
)
def test_kube_proxy_is_slow_on_all_nodes_and_back(config: str, fake: FakeNodes, make: Make) -> None:
    fake.add_proxies(config)
    was, mode, seen = fake.plain_objects(), (yaml.safe_load(config).get("mode") or "iptables"), []
    proof = make().perform(Disruption.PROXY_SLOW, "a", lambda: seen.append(deepcopy(fake.objects)))
    now, before = (yaml.safe_load(each["data"]["config.conf"]) for each in (seen[0][PROXY_CONFIG], was[PROXY_CONFIG]))
    assert now.pop(mode) == {**(before.pop(mode, None) or {}), "minSyncPeriod": "10s"}
    assert now == before, "other modes keep their period"
    assert fake.plain_objects() == was
    assert proof.node == "all"
    assert f"kube-proxy v1.36.3 in {mode} mode on 3 nodes, one node after the other" in proof.words
    assert f"kube-proxy v1.36.3 in {mode} mode on 3 nodes again" in proof.words


def test_kube_proxies_that_report_another_period_are_no_proof(
    fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.add_proxies(SECTIONS)
    was, roll, reported = fake.plain_objects(), fake.roll, "10s"

    def report() -> None:
        roll()
        for name in fake.logs:
            fake.logs[name] += f'I1128 proxier.go:283] "Iptables sync params" minSyncPeriod="{reported}" burstSyncs=2\n'

    monkeypatch.setattr(fake, "roll", report)
    make().perform(Disruption.PROXY_SLOW, "", nothing)
    reported = "1s"
    with pytest.raises(HarnessError, match="reports minSyncPeriod 1s, not 10s"):
        make().perform(Disruption.PROXY_SLOW, "", nothing)
    assert fake.plain_objects() == was


def test_a_period_that_another_changes_meanwhile_did_not_last(fake: FakeNodes, make: Make) -> None:
    fake.add_proxies(SECTIONS)
    data = fake.objects[PROXY_CONFIG]["data"]

    def meanwhile() -> None:
        data["config.conf"] = data["config.conf"].replace("10s", "3s")

    with pytest.raises(HarnessError, match="minSyncPeriod is 3s in its ConfigMap, and no longer 10s"):
        make().perform(Disruption.PROXY_SLOW, "", meanwhile)
    assert data["config.conf"] == SECTIONS


@pytest.mark.parametrize("config", ["mode: kernelspace\n", SECTIONS.replace("1s", "10s"), "["])
def test_a_kube_proxy_that_is_slow_or_unknown_stays_as_it_is(config: str, fake: FakeNodes, make: Make) -> None:
    fake.add_proxies(config)
    with pytest.raises(RefusedError, match="minSyncPeriod"):
        make().perform(Disruption.PROXY_SLOW, "", nothing)
    assert not any(request.startswith("PATCH") for request in fake.requests)


def test_only_the_line_of_the_mode_is_undone(fake: FakeNodes, make: Make) -> None:
    fake.add_proxies(CONFIG)
    data = fake.objects[PROXY_CONFIG]["data"]

    def meanwhile() -> None:
        data["config.conf"] = data["config.conf"].replace("null", "[primary]")

    make().perform(Disruption.PROXY_MODE, "", meanwhile)
    assert data["config.conf"] == CONFIG.replace("null", "[primary]")


def test_kube_proxy_is_of_another_image_on_all_nodes_and_back(fake: FakeNodes, make: Make) -> None:
    fake.add_proxies()
    was, seen = fake.plain_objects(), []
    disruptor = make(images={Disruption.PROXY_UPGRADED: "kube-proxy:v1.35.4"})
    proof = disruptor.perform(
        Disruption.PROXY_UPGRADED, "", lambda: seen.append(deepcopy(fake.objects[PROXIES]["spec"]["template"]))
    )
    assert [each["image"] for each in seen[0]["spec"]["containers"]] == ["other:1", "kube-proxy:v1.35.4"]
    assert fake.plain_objects() == was
    assert "kube-proxy v1.35.4 in iptables mode on 3 nodes, one node after the other" in proof.words
    assert "kube-proxy v1.36.3 in iptables mode on 3 nodes again" in proof.words


def test_a_pod_that_ends_is_no_kube_proxy_of_another_image(fake: FakeNodes, make: Make) -> None:
    fake.add_proxies()
    fake.linger = True
    proof = make(images={Disruption.PROXY_UPGRADED: "kube-proxy:v1.35.4"}).perform(
        Disruption.PROXY_UPGRADED, "", nothing
    )
    assert "kube-proxy v1.35.4 in iptables mode on 3 nodes, one node after the other" in proof.words
    assert "kube-proxy v1.36.3 in iptables mode on 3 nodes again" in proof.words


def test_without_another_image_nothing_is_done(fake: FakeNodes, make: Make) -> None:
    fake.add_proxies()
    with pytest.raises(RefusedError, match="no other image"):
        make().perform(Disruption.PROXY_UPGRADED, "", nothing)
    assert not any(request.startswith("PATCH") for request in fake.requests)


def test_kube_proxies_that_stay_in_their_mode_are_no_proof_and_all_is_undone(fake: FakeNodes, make: Make) -> None:
    fake.add_proxies()
    was, fake.stuck_mode = fake.plain_objects(), "iptables"
    with pytest.raises(HarnessError, match="in iptables mode on 3 nodes, not nftables"):
        make().perform(Disruption.PROXY_MODE, "", nothing)
    assert fake.plain_objects() == was


def test_the_image_of_before_under_another_name_is_no_proof(
    fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.add_proxies()
    was, roll = fake.plain_objects(), fake.roll

    def same() -> None:
        roll()
        for pod in fake.pods.values():
            pod["status"]["containerStatuses"] = [{"name": "kube-proxy", "imageID": "sha256:kube-proxy:v1.36.3"}]

    monkeypatch.setattr(fake, "roll", same)
    with pytest.raises(HarnessError, match="is the image of before"):
        make(images={Disruption.PROXY_UPGRADED: "mirror:v1.36.3"}).perform(Disruption.PROXY_UPGRADED, "", nothing)
    assert fake.plain_objects() == was


def test_kube_proxies_that_are_not_replaced_are_reported(
    fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollouts, "ROLLED", SHORT)
    monkeypatch.setattr(rollouts, "_budget", lambda cluster, what: SHORT)
    fake.add_proxies()
    was, fake.abandoned = fake.plain_objects(), True
    with pytest.raises(HarnessError, match="kube-proxy is not replaced on all nodes"):
        make().perform(Disruption.PROXY_MODE, "", nothing)
    assert fake.plain_objects() == was


def test_kube_proxies_that_another_replaces_meanwhile_prove_nothing(fake: FakeNodes, make: Make) -> None:
    fake.add_proxies()
    with pytest.raises(HarnessError, match="replaced once more"):
        make().perform(Disruption.PROXY_MODE, "", fake.roll)


@pytest.mark.parametrize("path", [PROXY_CONFIG, PROXIES])
def test_kube_proxy_that_another_run_changes_is_left_alone(path: str, fake: FakeNodes, make: Make) -> None:
    fake.add_proxies()
    fake.objects[path]["metadata"]["annotations"] = {CHANGED_BY: "elsewhere/1"}
    was = fake.plain_objects()
    with pytest.raises(RefusedError, match="already changed by run elsewhere/1"):
        make().perform(Disruption.PROXY_MODE, "", nothing)
    assert fake.plain_objects() == was


def kube_proxys(cluster: Cluster, image: str = "", **kernels: str) -> dict[str, str]:
    """Why a change of kube-proxy is impossible; "" if it is possible."""
    found = kube_proxy.features(cluster, {"a": "6.1.0-9-amd64", **kernels}, image)
    return {name: "" if feature.present else feature.why for name, feature in found.items()}


def test_kube_proxy_can_be_changed_where_its_objects_say_so(fake: FakeNodes, cluster: Cluster) -> None:
    mode, image, period = kube_proxy.OTHER_MODE, daemon_sets.KUBE_PROXY.feature, kube_proxy.OTHER_PERIOD
    assert set(kube_proxys(cluster).values()) == {"there is no DaemonSet kube-system/kube-proxy"}
    fake.add_proxies()
    assert kube_proxys(cluster) == {mode: "", image: "no other image is named (--kube-proxy-image)", period: ""}
    assert kube_proxys(cluster, "kube-proxy:v1.35.4") == {mode: "", image: "", period: ""}
    assert "names the image that kube-proxy has now" in kube_proxys(cluster, "kube-proxy:v1.36.3")[image]
    assert "needs Linux 5.13, and b has 5.4.0" in kube_proxys(cluster, b="5.4.0")[mode]
    fake.add_proxies("mode: nftables")
    assert kube_proxys(cluster, b="5.4.0")[mode] == "", "iptables needs no new kernel"
    fake.add_proxies("mode: ipvs")
    assert ("says ipvs" in kube_proxys(cluster)[mode], kube_proxys(cluster)[period]) == (True, "")
    fake.add_proxies(image="kube-proxy:v1.30.2")
    assert "without a feature gate" in kube_proxys(cluster)[mode]
    fake.objects[PROXIES]["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert all("OnDelete" in why for why in kube_proxys(cluster).values())
    fake.add_proxies()
    fake.objects[PROXIES]["metadata"]["labels"] = {daemon_sets.ADD_ON_MANAGER: "Reconcile"}
    assert all("add-on manager" in why for why in kube_proxys(cluster).values())


# --------------------------------------------------------------------------------------- Cilium's agents on all nodes
OTHER_CILIUM = {Disruption.NETWORK_AGENT_UPGRADED: "cilium:v1.19.1"}


def test_ciliums_agents_are_of_another_image_on_all_nodes_and_back(fake: FakeNodes, make: Make) -> None:
    fake.add_cilium(rollingUpdate={"maxUnavailable": 2})
    was, seen = fake.plain_objects(), []
    proof = make(images=OTHER_CILIUM).perform(
        Disruption.NETWORK_AGENT_UPGRADED, "a", lambda: seen.append(deepcopy(fake.objects[CILIUM]["spec"]["template"]))
    )
    spec = seen[0]["spec"]
    assert [each["image"] for each in spec["initContainers"]] == ["cilium:v1.19.1"], "its containers fit together"
    assert [each["image"] for each in spec["containers"]] == ["cilium:v1.19.1", "other:1"]
    assert fake.plain_objects() == was
    assert "Cilium 1.19.1 on 3 nodes, up to 2 nodes at the same time" in proof.words
    assert "Cilium 1.18.6 on 3 nodes again" in proof.words
    assert proof.node == "all"


def test_ciliums_image_of_before_under_another_name_is_no_proof(
    fake: FakeNodes, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.add_cilium()
    was, roll = fake.plain_objects(), fake.roll_cilium

    def same() -> None:
        roll()
        for pod in fake.pods.values():
            pod["status"]["containerStatuses"] = [{"name": "cilium-agent", "imageID": "sha256:cilium:v1.18.6"}]

    monkeypatch.setattr(fake, "roll_cilium", same)
    with pytest.raises(HarnessError, match="is the image of before"):
        make(images=OTHER_CILIUM).perform(Disruption.NETWORK_AGENT_UPGRADED, "", nothing)
    assert fake.plain_objects() == was


def test_cilium_that_another_run_changes_is_left_alone(fake: FakeNodes, make: Make) -> None:
    fake.add_cilium()
    fake.objects[CILIUM]["metadata"]["annotations"] = {CHANGED_BY: "elsewhere/1"}
    was = fake.plain_objects()
    with pytest.raises(RefusedError, match=r"Cilium is already changed by run elsewhere/1"):
        make(images=OTHER_CILIUM).perform(Disruption.NETWORK_AGENT_UPGRADED, "", nothing)
    assert fake.plain_objects() == was


def test_without_another_image_of_cilium_nothing_is_done(fake: FakeNodes, make: Make) -> None:
    fake.add_cilium()
    with pytest.raises(RefusedError, match="no other image of Cilium"):
        make().perform(Disruption.NETWORK_AGENT_UPGRADED, "", nothing)
    assert not any(request.startswith("PATCH") for request in fake.requests)


def test_the_other_images_are_repeated_unless_the_environment_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings("x", kube_proxy_image="proxy:1", network_agent_image="agent:1")
    assert "--kube-proxy-image proxy:1 --network-agent-image agent:1" in settings.repeat
    monkeypatch.setenv("ESIPP_NETWORK_AGENT_IMAGE", "agent:1")
    assert "agent:1" not in settings.repeat
    assert settings.images[Disruption.NETWORK_AGENT_UPGRADED] == "agent:1"


def test_cilium_can_be_upgraded_by_one_minor_version_at_a_time(fake: FakeNodes, cluster: Cluster) -> None:
    def why(image: str = "") -> str:
        found = daemon_sets.listed(cluster, daemon_sets.CILIUM)
        (feature,) = daemon_sets.other_image(found, daemon_sets.CILIUM, image).values()
        return "" if feature.present else feature.why

    assert why("cilium:v1.19.1") == "there is no DaemonSet kube-system/cilium"
    fake.add_cilium()
    assert why() == "no other image is named (--network-agent-image)"
    assert "names the image that Cilium has now" in why("cilium:v1.18.6")
    for near in ("cilium:v1.19.1", "cilium:v1.17.0", "cilium:v1.18.7", "mirror:5000/cilium@sha256:ab", "cilium:main"):
        assert why(near) == "", near
    for far in ("cilium:v1.20.2", "cilium:v1.16.19", "r:5000/cilium:v2.18.0@sha256:ab"):
        assert "one minor version at a time" in why(far), far
    fake.objects[CILIUM]["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert "OnDelete" in why("cilium:v1.19.1")


# ----------------------------------------------------------------------------------------------- on nodes themselves
@pytest.fixture
def control_plane(fake: FakeNodes, shell_of: dict[str, FakeNode], tmp_path: Path) -> FakeNode:
    """A node with an API server, which is silent while its process is stopped."""
    node = shell_of["a"] = FakeNode(tmp_path / "a")
    fake.add_pod("kube-apiserver-a", "a", namespace="kube-system", component="kube-apiserver", tier="control-plane")
    fake.leases |= {f"kube-system/{name}": 1 for name in services.LEADERS}
    fake.leases["kube-node-lease/a"] = -1
    return node


def follow(fake: FakeNodes, node: FakeNode) -> Callable[[], None]:
    """Have the API server be silent as long as its process is stopped."""
    fake.silent = lambda: node.says("api") == "T"

    def meanwhile() -> None:
        assert fake.silent()

    return meanwhile


def test_the_api_server_is_away_meanwhile(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    proof = make().perform(Disruption.API_SERVER, "", follow(fake, control_plane))
    assert (control_plane.says("api"), control_plane.marked, control_plane.says("switch")) == ("S", {}, "")
    assert "all processes on a were stopped, and a request got no answer" in proof.words
    assert "requests was answered meanwhile; it answers" in proof.words


def test_of_several_api_servers_none_stays_stopped_if_a_later_one_is_refused(
    fake: FakeNodes, make: Make, control_plane: FakeNode, shell_of: dict[str, FakeNode], tmp_path: Path
) -> None:
    fake.add_pod("kube-apiserver-b", "b", namespace="kube-system", component="kube-apiserver")
    other = shell_of["b"] = FakeNode(tmp_path / "b")
    shell.stop(other.way, Disruption.API_SERVER, "another/1", 60)
    with pytest.raises(HarnessError, match="is already in effect on the node"):
        make().perform(Disruption.API_SERVER, "", nothing)
    assert (control_plane.says("api"), control_plane.marked) == ("S", {})
    assert (other.says("api"), other.marked) == ("T", {"api-server": "another/1"}), "that one is another run's"


def test_an_api_server_that_still_answers_is_found_out(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    with pytest.raises(HarnessError, match="still answers"):
        make().perform(Disruption.API_SERVER, "", nothing)
    assert (control_plane.says("api"), control_plane.marked) == ("S", {})


def test_an_api_server_that_is_back_too_early_is_found_out(
    fake: FakeNodes, make: Make, control_plane: FakeNode
) -> None:
    follow(fake, control_plane)
    with pytest.raises(HarnessError, match="expected that the API server is stopped"):
        make().perform(Disruption.API_SERVER, "", lambda: (control_plane.state / "api").write_text("S\n") and None)
    assert control_plane.marked == {}


def test_leaders_that_stay_away_are_reported(
    fake: FakeNodes, make: Make, control_plane: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "CONTROL_PLANE", SHORT)
    fake.leases["kube-system/kube-scheduler"] = -1
    with pytest.raises(HarnessError, match=r"does not recover.*not working: kube-scheduler"):
        make().perform(Disruption.API_SERVER, "", follow(fake, control_plane))
    assert control_plane.says("api") == "S"


def test_a_kubelet_is_stopped_meanwhile(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    seen = []

    def meanwhile() -> None:
        seen.append((control_plane.says("kubelet"), control_plane.marked))

    fake.before = lambda method, path, body: renew(fake, control_plane)
    proof = make().perform(Disruption.KUBELET, "a", meanwhile)
    assert seen == [("inactive", {"kubelet": owner()})]
    assert (control_plane.says("kubelet"), control_plane.marked, control_plane.says("switch")) == ("active", {}, "")
    assert "the node's Lease was not renewed meanwhile" in proof.words


def renew(fake: FakeNodes, node: FakeNode) -> None:
    """The Lease is renewed while the kubelet runs."""
    if node.says("kubelet") == "active":
        fake.leases["kube-node-lease/a"] = abs(fake.leases["kube-node-lease/a"])
    else:
        fake.leases["kube-node-lease/a"] = -abs(fake.leases["kube-node-lease/a"])


def test_a_node_may_have_to_count_as_not_ready_first(
    fake: FakeNodes, make: Make, control_plane: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "NOT_READY", SHORT)
    fake.before = lambda method, path, body: renew(fake, control_plane)
    with pytest.raises(HarnessError, match="remains ready without a kubelet"):
        make().perform(Disruption.KUBELET, "a", nothing, not_ready=True)
    assert control_plane.says("kubelet") == "active"


def test_a_lease_that_is_renewed_all_the_same_is_found_out(
    fake: FakeNodes, make: Make, control_plane: FakeNode
) -> None:
    fake.leases["kube-node-lease/a"] = 1
    with pytest.raises(HarnessError, match="was renewed meanwhile"):
        make().perform(Disruption.KUBELET, "a", nothing)
    assert control_plane.says("kubelet") == "active"


def test_the_taint_is_the_autoscalers_and_others_stay(fake: FakeNodes, make: Make) -> None:
    other = {"key": "other", "effect": "NoExecute"}
    fake.nodes["b"]["spec"]["taints"] = [other]
    before, seen = fake.plain(), []
    make().perform(Disruption.TAINT, "b", lambda: seen.append(list(fake.nodes["b"]["spec"]["taints"])))
    assert seen == [[other, {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]]
    assert fake.plain() == before
    fake.nodes["b"]["spec"]["taints"] += seen[0][1:]
    with pytest.raises(RefusedError, match="already tainted by someone else"):
        make().perform(Disruption.TAINT, "b", nothing)


@pytest.mark.parametrize("what", [Disruption.CUT_OFF, Disruption.CONNTRACK_FULL])
def test_a_node_drops_packets_meanwhile(what: Disruption, fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    fake.leases["kube-node-lease/a"] = 1
    seen: list[tuple[str, dict[str, str]]] = []
    proof = make().perform(what, "a", lambda: seen.append((control_plane.says("rules"), control_plane.marked)))
    ((rules, marked),) = seen
    assert marked == {what.value: owner()}
    assert rules.startswith(f"table inet esipp-{what.value}")
    assert "iifname eth0" in rules
    assert ("ct state new" in rules) is (what is Disruption.CONNTRACK_FULL)
    assert (control_plane.says("rules"), control_plane.marked, control_plane.says("switch")) == ("", {}, "")
    assert "the node was ready after" in proof.words
    with pytest.raises(HarnessError, match="expected that the node"):
        make().perform(what, "a", lambda: (control_plane.state / "rules").unlink())
    assert control_plane.marked == {}


@pytest.mark.parametrize(
    ("own", "other"),
    [("172.18.0.3", "172.18.0.35"), ("172.18.255.200", "172.18.255.232"), ("fc00:f853::3", "fc00:f853::23")],
)
def test_another_address_is_in_the_same_network(own: str, other: str) -> None:
    assert (another(own), another(other)) == (other, own)


def test_a_node_has_another_address_meanwhile(
    fake: FakeNodes, make: Make, control_plane: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "USABLE", SHORT)
    named = [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "192.0.2.2"}]
    fake.nodes["a"]["status"]["addresses"] = named
    seen: list[str] = []
    proof = make().perform(Disruption.ADDRESS_ADDED, "a", lambda: seen.append(control_plane.says("addresses")))
    assert seen == ["2: eth0    inet 192.0.2.34/32 scope global eth0"]
    assert (control_plane.says("addresses"), control_plane.marked) == ("", {})
    assert proof.words == "the node has another address of each family: 192.0.2.34; until the end; undone"
    with pytest.raises(HarnessError, match="expected that the node has another address"):
        make().perform(Disruption.ADDRESS_ADDED, "a", lambda: (control_plane.state / "addresses").unlink())
    assert control_plane.marked == {}


def test_entries_of_the_runs_services_are_deleted(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    given = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}, {"ip": "2001:db8::7"}]}}
    fake.services = [{"spec": {"ports": [{"nodePort": 30080}]}, "status": given}]
    flows = (
        ("tcp", "192.0.2.5", 30080),
        ("udp", "192.0.2.5", 30080),
        ("tcp", "2001:db8::7", 80),
        ("sctp", "192.0.2.7", 80),
    )
    others = ("tcp", "192.0.2.5", 30081), ("tcp", "192.0.2.8", 80)
    back = "src=192.0.2.90 dst=192.0.2.91 sport=80 dport=5"
    lines = [
        f"{protocol} 6 9 src=::9 dst={host} sport=5 dport={port} {back}" for protocol, host, port in (*flows, *others)
    ]
    (control_plane.state / "tracked").write_text("\n".join(lines))
    proof = make().perform(Disruption.CONNTRACK_DELETED, "a", nothing)
    assert proof.words == "4 connection tracking entries deleted"
    assert sorted(control_plane.says("deleted").splitlines()) == [
        "-D -f ipv4 --orig-dst 192.0.2.7",
        "-D -f ipv4 -p tcp --orig-port-dst 30080",
        "-D -f ipv4 -p udp --orig-port-dst 30080",
        "-D -f ipv6 --orig-dst 2001:db8::7",
    ]
    fake.services = []
    with pytest.raises(HarnessError, match="had no connection tracking entry"):
        make().perform(Disruption.CONNTRACK_DELETED, "a", nothing)


def proxy_of(fake: FakeNodes, starts: Callable[[], int]) -> None:
    """The pod of kube-proxy on node a, started so often again."""
    fake.add_pod("proxy-1", "a", namespace="kube-system", daemon_set="ds", k8s_app="kube-proxy")
    status = fake.pods["kube-system/proxy-1"]["status"]

    def see(method: str, path: str, body: Json) -> None:
        status["containerStatuses"] = [{"restartCount": starts()}]

    fake.before = see


def test_a_stopped_proxy_is_started_anew(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    seen = []
    proxy_of(fake, lambda: int(bool(seen) and control_plane.says("proxy") == "S"))
    what = Disruption.PROXY_STOPPED
    proof = make().perform(what, "a", lambda: seen.append((control_plane.says("proxy"), control_plane.marked)))
    assert seen == [("T", {"proxy-stopped": owner()})]
    assert (control_plane.says("proxy"), control_plane.marked, control_plane.says("switch")) == ("S", {}, "")
    assert "kube-proxy is stopped; until the end; started again" in proof.words


def test_a_proxy_that_does_not_start_again_is_reported(
    fake: FakeNodes, make: Make, control_plane: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "AGAIN", SHORT)
    proxy_of(fake, lambda: 3)
    with pytest.raises(HarnessError, match="does not start again"):
        make().perform(Disruption.PROXY_STOPPED, "a", nothing)


def test_a_proxy_that_its_kubelet_lets_wait_is_replaced(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    """Kubelets let what often ends wait for up to 300 s; kind's let an agent wait for more than 120 s (2026-11-28)."""
    proxy_of(fake, lambda: 0)
    status, disturbed = fake.pods["kube-system/proxy-1"]["status"], []

    def see(method: str, path: str, body: Json) -> None:
        waits = bool(disturbed) and control_plane.says("proxy") == "S" and "kube-system/proxy-1" in fake.pods
        state = {"waiting": {"reason": "CrashLoopBackOff"}} if waits else {"running": {}}
        status["containerStatuses"] = [{"restartCount": 4, "state": state}]
        status["conditions"] = [{"type": "Ready", "status": "False" if waits else "True"}]

    fake.before = see
    proof = make().perform(Disruption.PROXY_STOPPED, "a", lambda: disturbed.append(True))
    assert proof.words.endswith(", as another pod: its kubelet would have waited")
    assert [each["metadata"]["uid"] for each in fake.pods.values()] != ["uid-proxy-1"]


def test_a_sick_proxy_is_well_again_at_once(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    proxy_of(fake, lambda: 0)
    proof = make().perform(Disruption.PROXY_SICK, "a", nothing)
    assert proof.words == "kube-proxy cannot write its rules; until the end; undone"


def test_a_proxy_that_someone_starts_meanwhile_is_found_out(
    fake: FakeNodes, make: Make, control_plane: FakeNode
) -> None:
    seen: list[int] = []
    proxy_of(fake, lambda: len(seen))
    with pytest.raises(HarnessError, match="expected that kube-proxy is stopped"):
        make().perform(
            Disruption.PROXY_STOPPED, "a", lambda: seen.append((control_plane.state / "proxy").write_text("S"))
        )


def test_a_controller_is_stopped_where_it_runs(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    seen: list[str] = []
    fake.add_pod("controller-1", "a", namespace="m", app="metallb", component="controller")
    with pytest.raises(HarnessError, match="Cannot find the load balancer's controller"):
        make().perform(Disruption.CONTROLLER_STOPPED, "b", nothing)
    pod = fake.pods["m/controller-1"]
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "uid": "rs", "controller": True}]
    pod["status"]["containerStatuses"] = [{"restartCount": 0}]

    def see(method: str, path: str, body: Json) -> None:
        pod["status"]["containerStatuses"] = [{"restartCount": int(seen == ["T"])}]

    fake.before = see
    proof = make().perform(Disruption.CONTROLLER_STOPPED, "b", lambda: seen.append(control_plane.says("controller")))
    assert (seen, control_plane.says("controller"), proof.node) == (["T"], "S", "a")
    assert "the load balancer's controller is stopped; until the end; started again" in proof.words


def test_a_controller_that_is_replaced_on_another_node_is_found_there(
    fake: FakeNodes, make: Make, control_plane: FakeNode
) -> None:
    """esipp deletes a pod whose restart its kubelet delays. MetalLB's next controller ran elsewhere (2026-11-29)."""
    waits = {"restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}

    def add(name: str, node: str) -> Json:
        fake.add_pod(name, node, namespace="m", app="metallb", component="controller")
        pod = fake.pods[f"m/{name}"]
        pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "uid": "rs", "controller": True}]
        pod["status"]["containerStatuses"] = [{"restartCount": 0}]
        return pod

    first, disturbed = add("controller-1", "a"), list[bool]()

    def see(method: str, path: str, body: Json) -> tuple[int, Json] | None:
        if disturbed and control_plane.says("controller") == "S":
            first["status"] |= {"containerStatuses": [waits], "conditions": [{"type": "Ready", "status": "False"}]}
        if method == "DELETE" and path.endswith("/pods/controller-1"):
            del fake.pods["m/controller-1"]
            add("controller-2", "b")
            return 200, {}
        return None

    fake.before = see
    proof = make().perform(Disruption.CONTROLLER_STOPPED, "b", lambda: disturbed.append(True))
    assert proof.words.endswith(", as another pod: its kubelet would have waited")


@pytest.mark.parametrize(
    ("what", "labels", "process", "words"),
    [
        (
            Disruption.SPEAKER_STOPPED,
            {"app": "metallb", "component": "speaker"},
            "speaker",
            "the load balancer's speaker",
        ),
        (Disruption.NETWORK_STOPPED, {"k8s-app": "cilium"}, "cilium-agent", "the network add-on's agent"),
        (Disruption.NETWORK_STOPPED, {"app": "kindnet"}, "kindnetd", "the network add-on's agent"),
    ],
)
def test_any_agent_is_stopped_by_its_process_and_started_anew(
    what: Disruption,
    labels: dict[str, str],
    process: str,
    words: str,
    fake: FakeNodes,
    make: Make,
    control_plane: FakeNode,
) -> None:
    for name in ("kindnetd", "speaker"):
        (control_plane.state / name).unlink()
    (control_plane.state / process).write_text("S\n")
    seen: list[str] = []
    named = {key.replace("-", "_"): value for key, value in labels.items()}
    fake.add_pod("agent-1", "a", namespace="n", daemon_set="ds", **named)
    fake.add_pod("agent-2", "b", namespace="n", daemon_set="ds", **named)
    status = fake.pods["n/agent-1"]["status"]

    def see(method: str, path: str, body: Json) -> None:
        status["containerStatuses"] = [{"restartCount": int(seen == ["T"])}]

    fake.before = see
    proof = make().perform(what, "a", lambda: seen.append(control_plane.says(process)))
    assert (seen, control_plane.says(process), control_plane.marked) == (["T"], "S", {})
    assert f"{words} is stopped; until the end; started again" in proof.words


def test_an_agent_of_several_processes_is_restarted_and_never_stopped(cluster: Cluster, fake: FakeNodes) -> None:
    fake.add_pod("calico-1", "a", namespace="n", daemon_set="ds", k8s_app="calico-node")
    assert pods_feature(cluster, Disruption.NETWORK_AGENT).present
    assert not pods_feature(cluster, Disruption.NETWORK_STOPPED).present
    assert all(names for what in STOPPED for names in AGENTS[what].processes.values())
    assert all(len(name) <= 15 for what in STOPPED for name in AGENTS[what].processes.values()), "Linux cuts it there"


def balancer(*addresses: str) -> Any:
    return SimpleNamespace(addresses=dict(zip(("IPv4", "IPv6"), addresses, strict=False)))


def test_the_reference_balancer_is_cut_off_from_the_api_server(
    fake: FakeNodes, make: Make, control_plane: FakeNode
) -> None:
    fake.add_pod("kube-apiserver-a", "a", namespace="kube-system", component="kube-apiserver")
    seen: list[str] = []

    def meanwhile() -> None:
        seen.append(control_plane.says("rules"))
        counted = seen[0].replace("counter", "counter packets 3 bytes 180")
        (control_plane.state / "rules").write_text(counted)

    what = Disruption.BALANCER_CUT_OFF
    proof = make(reference=balancer("192.0.2.7", "2001:db8::7")).perform(what, "", meanwhile)
    for words in ("ip saddr 192.0.2.7 tcp dport 6443", "ip6 daddr 2001:db8::7 tcp sport 6443"):
        assert f"{words} counter drop;" in seen[0]
    assert (control_plane.says("rules"), control_plane.marked, proof.node) == ("", {}, "all")
    assert "12 packets between them were dropped until the end; undone" in proof.words


def test_a_balancer_that_sends_nothing_was_not_cut_off(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    fake.add_pod("kube-apiserver-a", "a", namespace="kube-system", component="kube-apiserver")
    with pytest.raises(HarnessError, match="There is no reference load balancer"):
        make().perform(Disruption.BALANCER_CUT_OFF, "", nothing)
    with pytest.raises(HarnessError, match="sent each other nothing"):
        make(reference=balancer("192.0.2.7")).perform(Disruption.BALANCER_CUT_OFF, "", nothing)
    assert (control_plane.says("rules"), control_plane.marked) == ("", {})


def registering(fake: FakeNodes, node: FakeNode, uid: str = "uid-another", **changed: str) -> None:
    """Node a, which the API server has as its own commands left it."""
    fake.leases["kube-node-lease/a"] = 1
    before = deepcopy(fake.nodes["a"])

    def see(method: str, path: str, body: Json) -> None:
        if method == "DELETE":
            (node.state / "node").unlink()
        elif (node.state / "node").exists() and "a" not in fake.nodes:
            metadata = {**before["metadata"], "uid": uid}
            fake.nodes["a"] = {**before, "metadata": metadata, "spec": {**before["spec"], **changed}}

    fake.before = see


def test_a_node_object_is_deleted_and_registered_again(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    fake.nodes["a"]["metadata"]["labels"]["zone"] = "z1"
    before, seen = fake.plain(), []
    registering(fake, control_plane)
    proof = make().perform(Disruption.NODE_DELETED, "a", lambda: seen.append(("a" in fake.nodes, control_plane.marked)))
    assert seen == [(False, {"node-deleted": owner(), "node.yaml": seen[0][1]["node.yaml"]})]
    assert (fake.plain(), control_plane.marked, control_plane.says("switch")) == (before, {}, "")
    assert proof.words.startswith("the Node object is deleted; until the end; registered again, and ready after ")


def test_a_node_leaves_and_joins_again(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    fake.add_pod("kube-proxy-1", "a", namespace="kube-system")
    fake.add_pod("kube-proxy-2", "b", namespace="kube-system")
    fake.nodes["a"]["spec"]["taints"] = [{"key": "own", "effect": "NoSchedule"}]
    before, seen = fake.plain(), []
    registering(fake, control_plane)

    def meanwhile() -> None:
        seen.append(("a" in fake.nodes, control_plane.says("kubelet"), "drop" in control_plane.says("rules")))

    proof = make().perform(Disruption.NODE_LEFT, "a", meanwhile)
    assert seen == [(False, "inactive", True)]
    assert (fake.plain(), fake.nodes["a"]["metadata"]["uid"]) == (before, "uid-another")
    assert (control_plane.marked, control_plane.says("kubelet"), control_plane.says("rules")) == ({}, "active", "")
    assert proof.words.startswith("the node is off the network, without a kubelet and without a Node object; until")
    assert "its 2 pods ready" in proof.words


def test_a_node_that_joins_without_its_pods_is_reported(
    fake: FakeNodes, make: Make, control_plane: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "PODS_BACK", SHORT)
    fake.add_pod("kube-proxy-1", "a", namespace="kube-system")
    registering(fake, control_plane)
    with pytest.raises(HarnessError, match="not ready: kube-system/kube-apiserver-a, kube-system/kube-proxy-1"):
        make().perform(Disruption.NODE_LEFT, "a", fake.pods.clear)


@pytest.mark.parametrize("what", [Disruption.NODE_DELETED, Disruption.NODE_LEFT])
def test_a_node_that_is_the_same_object_as_before_is_reported(
    what: Disruption, fake: FakeNodes, make: Make, control_plane: FakeNode
) -> None:
    registering(fake, control_plane, uid="uid-a")
    with pytest.raises(HarnessError, match="Node a is the same object as before"):
        make().perform(what, "a", nothing)


@pytest.mark.parametrize("lacks", ["rules", "kubelet"])
def test_a_node_that_comes_back_too_early_is_found_out(
    lacks: str, fake: FakeNodes, make: Make, control_plane: FakeNode
) -> None:
    registering(fake, control_plane)
    with pytest.raises(HarnessError, match="expected that the node is off the network"):
        make().perform(Disruption.NODE_LEFT, "a", (control_plane.state / lacks).unlink)
    assert (control_plane.marked, control_plane.says("kubelet")) == ({}, "active")


def test_a_node_that_registers_otherwise_is_reported(fake: FakeNodes, make: Make, control_plane: FakeNode) -> None:
    fake.nodes["a"]["spec"]["podCIDRs"] = ["10.244.1.0/24"]
    registering(fake, control_plane, podCIDRs="10.244.7.0/24")
    with pytest.raises(HarnessError, match="was registered again with other podCIDRs"):
        make().perform(Disruption.NODE_DELETED, "a", nothing)


def test_a_node_that_someone_registers_meanwhile_is_found_out(
    fake: FakeNodes, make: Make, control_plane: FakeNode
) -> None:
    registering(fake, control_plane)
    with pytest.raises(HarnessError, match="it was registered meanwhile"):
        make().perform(Disruption.NODE_DELETED, "a", lambda: (control_plane.state / "node").touch())


class FakeContainer:
    """The container of a node that joins: whatever docker would do is noted; ``fails`` names what does not work."""

    def __init__(self, fake: FakeNodes, plane: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake, self.plane, self.fails = fake, plane, ""
        self.there, self.done = False, list[str]()
        for name in ("start", "copy_images", "join", "describe", "remove"):
            monkeypatch.setattr(new_node, name, getattr(self, name))
        monkeypatch.setattr(joining, "run_on", self.run_on)
        (plane.state / "csrs").touch()
        fake.before = self.see

    def see(self, method: str, path: str, body: Json) -> None:
        if "delete node esipp-r1-joined" in self.plane.says("taken-away"):
            self.fake.nodes.pop("esipp-r1-joined", None)

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what == self.fails:
            raise HarnessError(f"{what} does not work.", "see docker.")

    def start(self, like: str, run: str, by: str, server: str) -> dict[Family, str]:
        assert (run, by, server.startswith("http://127")) == ("r1", owner(), True)
        self.there = True
        self._do(f"start like {like}")
        return {Family.IPV4: "192.0.2.9"}

    def copy_images(self, source: str, target: str, wanted: set[str]) -> list[str]:
        self._do(f"copy {', '.join(sorted(wanted))}")
        return []

    def join(self, like: str, name: str, addresses: object, token: str, labels: dict[str, str]) -> None:
        assert token in self.plane.says("token")
        assert labels == {"esipp.dev/run": "r1"}
        self._do("join")
        self.fake.nodes[name] = self.fake._node(name)

    def describe(self, name: str) -> Json | None:
        assert name == "esipp-r1-joined"
        return {} if self.there else None

    def remove(self, name: str, by: str) -> bool:
        assert (name, by) == ("esipp-r1-joined", owner())
        self.done.append("remove")
        was, self.there = self.there, False
        return was

    def run_on(self, way: tuple[str, ...], script: str) -> SimpleNamespace:
        assert way == ("docker", "exec", "esipp-r1-joined")
        self.done += ["its own switch"] if "poweroff" in script else []
        return SimpleNamespace(returncode=int(not self.there), stdout="", stderr="")


@pytest.fixture
def container(fake: FakeNodes, control_plane: FakeNode, monkeypatch: pytest.MonkeyPatch) -> FakeContainer:
    fake.add_pod("kube-apiserver-a", "a", namespace="kube-system", component="kube-apiserver")
    for name, node, owner_of_it in (("kube-proxy-1", "b", "d"), ("other", "b", ""), ("kube-proxy-2", "c", "d")):
        fake.add_pod(name, node, namespace="kube-system", daemon_set=owner_of_it)
        fake.pods[f"kube-system/{name}"]["spec"]["containers"] = [{"image": f"{name}:1"}]
    monkeypatch.setattr(joining, "GONE", SHORT)
    return FakeContainer(fake, control_plane, monkeypatch)


def with_worker(make: Make, control_plane: FakeNode, shell_of: dict[str, FakeNode]) -> Disruptor:
    shell_of["b"] = cast(FakeNode, SimpleNamespace(way=("docker", "exec", "b")))
    return make()


def test_another_node_joins_and_is_taken_away(
    fake: FakeNodes, make: Make, control_plane: FakeNode, shell_of: dict[str, FakeNode], container: FakeContainer
) -> None:
    before, seen = fake.plain(), list[object]()

    def meanwhile() -> None:
        seen.append(("esipp-r1-joined" in fake.nodes, set(control_plane.marked)))

    def told(name: str, addresses: object) -> None:
        seen.append((name, addresses, name in fake.nodes))

    disruptor = with_worker(make, control_plane, shell_of)
    proof = disruptor.perform(Disruption.NODE_JOINED, "", meanwhile, before_joining=told)
    assert seen == [
        ("esipp-r1-joined", {Family.IPV4: "192.0.2.9"}, False),
        (True, {"node-joined", "joined"}),
    ]
    assert container.done == ["start like b", "copy kube-proxy-1:1", "its own switch", "join", "remove"]
    assert (fake.plain(), control_plane.marked, control_plane.says("switch")) == (before, {}, "")
    assert proof.node == "esipp-r1-joined"
    assert proof.words.startswith("node esipp-r1-joined (192.0.2.9) joined, and was ready ")
    assert "its Node object, its pods and its container were gone" in proof.words


@pytest.mark.parametrize("fails", ["start like b", "copy kube-proxy-1:1", "join"])
def test_a_node_that_cannot_join_leaves_nothing(
    fails: str, fake: FakeNodes, make: Make, control_plane: FakeNode, shell_of: dict[str, FakeNode],
    container: FakeContainer,
) -> None:  # fmt: skip
    before, container.fails = fake.plain(), fails
    with pytest.raises(HarnessError, match=f"{fails} does not work"):
        with_worker(make, control_plane, shell_of).perform(Disruption.NODE_JOINED, "", nothing)
    assert (fake.plain(), control_plane.marked, container.there) == (before, {}, False)


def test_where_another_run_has_a_node_join_this_one_has_none(
    fake: FakeNodes, make: Make, control_plane: FakeNode, shell_of: dict[str, FakeNode], container: FakeContainer
) -> None:
    shell.stop(control_plane.way, Disruption.NODE_JOINED, "other/2", 60, shell.let_join("esipp-r2-joined", "a.b"))
    with pytest.raises(HarnessError, match="is already in effect on the node"):
        with_worker(make, control_plane, shell_of).perform(Disruption.NODE_JOINED, "", nothing)
    assert not container.there
    assert control_plane.marked["node-joined"] == "other/2"


def test_a_node_that_joined_and_runs_no_longer_is_found_out(
    fake: FakeNodes, make: Make, control_plane: FakeNode, shell_of: dict[str, FakeNode], container: FakeContainer
) -> None:
    def meanwhile() -> None:
        container.there = False

    with pytest.raises(HarnessError, match="Container esipp-r1-joined runs no longer"):
        with_worker(make, control_plane, shell_of).perform(Disruption.NODE_JOINED, "", meanwhile)
    assert control_plane.marked == {}


def test_what_is_left_of_a_node_that_joined_is_reported(
    fake: FakeNodes, make: Make, control_plane: FakeNode, shell_of: dict[str, FakeNode], container: FakeContainer
) -> None:
    fake.leases["kube-node-lease/esipp-r1-joined"] = 1
    fake.add_pod("kube-proxy-3", "esipp-r1-joined", namespace="kube-system")
    with pytest.raises(HarnessError, match=r"is not gone.*left: pod kube-proxy-3, its Lease"):
        with_worker(make, control_plane, shell_of).perform(Disruption.NODE_JOINED, "", nothing)


def test_a_slow_api_server_is_proven_by_a_late_answer(
    fake: FakeNodes, make: Make, control_plane: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "SLOW", 0.2)
    monkeypatch.setattr(services, "LATE", SHORT)
    fake.add_pod("kube-apiserver-a", "a", namespace="kube-system", component="kube-apiserver")
    with pytest.raises(HarnessError, match="The API server answers at once"):
        make().perform(Disruption.API_SLOW, "b", nothing)
    assert (control_plane.says("esipp-api-slow"), control_plane.marked) == ("", {})

    def late(method: str, path: str, body: Json) -> None:
        if path == "/version":
            threading.Event().wait(0.3)

    fake.before = late
    proof = make().perform(Disruption.API_SLOW, "b", nothing)
    assert "the API servers on a pause for 2 s again and again" in proof.words
    assert "requests were answered, after 0." in proof.words
    assert (control_plane.says("esipp-api-slow"), control_plane.marked, proof.node) == ("", {}, "all")


@pytest.fixture
def in_turn(
    fake: FakeNodes,
    control_plane: FakeNode,
    shell_of: dict[str, FakeNode],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[tuple[list[str], list[str]]]:
    """Two nodes with API servers. One that was ended starts again, and is ready when that was seen once.

    Returns what each look at their pods found: the nodes where they were ended, and those where they are not ready.
    """
    monkeypatch.setattr(services, "ASK_SPACING", 0.02)
    monkeypatch.setattr(services, "STARTED_AGAIN", replace(SHORT, seconds=10.0))
    fake.add_pod("kube-apiserver-b", "b", namespace="kube-system", component="kube-apiserver", tier="control-plane")
    shell_of["b"] = FakeNode(tmp_path / "b")
    looks: list[tuple[list[str], list[str]]] = []

    def see(method: str, path: str, body: Json) -> None:
        if not path.endswith("/pods"):
            return
        known = looks[-1][0] if looks else []
        ended = [name for name in ("a", "b") if shell_of[name].says("ended")]
        fresh = [name for name in ended if name not in known]
        for name in ("a", "b"):
            status = fake.pods[f"kube-system/kube-apiserver-{name}"]["status"]
            status["containerStatuses"] = [{"restartCount": len(shell_of[name].says("ended").split())}]
            status["conditions"] = [{"type": "Ready", "status": "False" if name in fresh else "True"}]
        looks.append((ended, fresh))

    fake.before = see
    return looks


def test_api_servers_are_restarted_one_after_the_other(
    make: Make, in_turn: list[tuple[list[str], list[str]]], shell_of: dict[str, FakeNode]
) -> None:
    ended: list[list[str]] = []
    proof = make().perform(Disruption.API_SERVERS_IN_TURN, "", lambda: ended.append(in_turn[-1][0]))
    assert [shell_of[name].says("ended") for name in ("a", "b")] == ["kube-apiserver"] * 2, "each of them once"
    assert ended == [["a", "b"]], "both, before traffic is looked at"
    seen = [look for look, _ in groupby(in_turn)]
    assert seen == [([], []), (["a"], ["a"]), (["a"], []), (["a", "b"], ["b"]), (["a", "b"], [])]
    assert re.search(r"the API servers were restarted one after the other, on a in \d+\.\d s, on b in ", proof.words)
    assert re.search(r"\d of \d+ requests were answered, one at least every \d+\.\d s; it answers", proof.words)
    assert (proof.node, shell_of["a"].marked) == ("all", {}), "their kubelets start them again: nothing is left to undo"


def test_no_api_server_is_ended_beside_one_that_is_not_ready(
    fake: FakeNodes, make: Make, in_turn: list[tuple[list[str], list[str]]], shell_of: dict[str, FakeNode]
) -> None:
    fake.before = lambda method, path, body: None
    fake.pods["kube-system/kube-apiserver-b"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    with pytest.raises(RefusedError, match="The API server on b is not ready"):
        make().perform(Disruption.API_SERVERS_IN_TURN, "", nothing)
    assert shell_of["a"].says("ended") == ""


def test_after_an_api_server_that_does_not_start_again_no_other_is_ended(
    fake: FakeNodes,
    make: Make,
    in_turn: list[tuple[list[str], list[str]]],
    shell_of: dict[str, FakeNode],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "STARTED_AGAIN", SHORT)
    fake.before = lambda method, path, body: None
    with pytest.raises(HarnessError, match="The API server on node a does not start again"):
        make().perform(Disruption.API_SERVERS_IN_TURN, "", nothing)
    assert (shell_of["a"].says("ended"), shell_of["b"].says("ended")) == ("kube-apiserver", "")


def test_a_time_without_any_api_server_is_no_restart_in_turn(
    fake: FakeNodes, make: Make, in_turn: list[tuple[list[str], list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "GIVEN_UP", 1.0)
    began: list[float] = []

    def away() -> None:
        began.append(time.monotonic())
        fake.silent = lambda: time.monotonic() - began[0] < 1.5
        threading.Event().wait(2.0)

    with pytest.raises(HarnessError, match=r"one after the other, none answered for [1-9]"):
        make().perform(Disruption.API_SERVERS_IN_TURN, "", away)
    assert began, "it was found out only then"


@pytest.mark.parametrize("what", [Disruption.API_SERVER, Disruption.KUBELET])
def test_a_node_that_cannot_be_reached_is_not_touched(what: Disruption, fake: FakeNodes, make: Make) -> None:
    with pytest.raises(HarnessError):
        make().perform(what, "b", nothing)


def test_each_disruption_has_its_feature() -> None:
    assert {name for what in Disruption for name in features_of(what)} == {
        *(
            "service-proxy.kube-proxy",
            "kube-proxy.pods",
            "load-balancer.speaker",
            "control-plane.reachable",
            "control-plane.several",
            "nodes.shell",
        ),
        *("network-add-on.agents", "network-add-on.stoppable", "load-balancer.controller", "rights.node-deletion"),
        *("kube-proxy.other-mode", "kube-proxy.other-image", "kube-proxy.other-period", "rights.kube-proxy"),
        *("network-agent.other-image", "rights.network-agent"),
    }
    assert all(seconds < 300 for seconds in LONGEST.values()), "pods would be evicted from a node that is not ready"
