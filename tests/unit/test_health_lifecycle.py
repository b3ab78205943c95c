"""The life cycle trial against an API server that lies, one way each: the right checks notice, and no others."""

import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base import waiting
from esipp.base.interrupt import Stop, StoppedError
from esipp.base.waiting import Budget
from esipp.checks.check import Status
from esipp.checks.health import Answer, Place
from esipp.checks.model import Family
from esipp.scenarios.health import port_lifecycle as lifecycle
from esipp.scenarios.health.evidence import Fact, HealthEvidence
from esipp.scenarios.health.port_lifecycle import LifeCycle
from esipp.scenarios.timeouts import TIMEOUTS
from tests.unit.fake_api_server import HIGH, LOW, FakeApi
from tests.unit.health_world import NAMESPACE, TRIALS, differing

CHECKS = [check for check in TRIALS if check.subject.scenario == "lifecycle"]
FAIL, OPEN = Status.FAIL, Status.INCONCLUSIVE
LISTENED = ("chosen", "claimable", "freed-by-policy", "freed-by-type", "freed-by-deletion", "kept")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    follow_within(monkeypatch, Budget("made up", 0.1, need=3, spacing=0.0))


def follow_within(monkeypatch: pytest.MonkeyPatch, budget: Budget) -> None:
    """How long the trial waits for nodes."""
    monkeypatch.setattr(sys.modules[__name__], "TIMEOUTS", replace(TIMEOUTS, port_followed=budget))


def live(api: FakeApi, *, listen: bool = True, stop: Stop | None = None) -> dict[str, Fact]:
    testbed = SimpleNamespace(cluster=api, namespace=NAMESPACE, run="test")
    asker: Any = SimpleNamespace(testbed=testbed, everywhere=api.everywhere, stop=stop or Stop(), timeouts=TIMEOUTS)
    return LifeCycle(asker, listen).perform()


def noticed(*lies: str, listen: bool = True) -> dict[str, Status]:
    """The claims that do not hold, with their verdict."""
    seen = HealthEvidence(life=live(FakeApi(*lies), listen=listen))
    return {name.rpartition(".")[2]: status for name, status in differing(seen, CHECKS).items()}


def test_an_honest_server_is_conformant() -> None:
    api = FakeApi()
    facts = live(api)
    assert differing(HealthEvidence(life=facts), CHECKS) == {}
    assert set(facts) == {check.subject.claim for check in CHECKS} - {"prompt"}
    assert facts["allocated"].bounds == (LOW, HIGH)
    assert not {"life-probe", "life-range", "life-no-1", "life-no-2", "life-taken", "life-heir"} & set(api.services)


@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        ("out-of-range", {"allocated": FAIL}),
        ("no-range", {"allocated": OPEN}),
        ("any-range", {"allocated": OPEN}),
        ("hands-out-twice", {"collision": FAIL, "collision-words": FAIL}),
        ("takes-a-change", {"immutable": FAIL}),
        ("loses-on-update", {"kept-on-update": FAIL, "kept": FAIL}),
        ("loses-on-patch", {"kept-on-patch": FAIL, "kept": FAIL}),
        ("loses-on-apply", {"kept-on-apply": FAIL, "kept": FAIL}),
        ("ignores-choice", {"chosen": FAIL, "claimable": FAIL, "freed-by-deletion": OPEN}),
        ("takes-anything", {"refused-with-cluster": FAIL, "refused-for-nodeport": FAIL}),
        (
            "keeps-the-port",
            {"freed-by-policy": FAIL, "freed-by-type": FAIL, "claimable": FAIL, "freed-by-deletion": OPEN},
        ),
        ("stays-open", {"freed-by-policy": FAIL, "freed-by-type": FAIL, "claimable": FAIL, "freed-by-deletion": OPEN}),
        (
            "nobody-listens",
            dict.fromkeys((*LISTENED, "prompt"), OPEN) | {"chosen": FAIL, "claimable": FAIL, "kept": FAIL},
        ),
        ("flaps", dict.fromkeys((*LISTENED, "prompt"), OPEN) | {"chosen": FAIL, "claimable": FAIL, "kept": FAIL}),
        ("nodes-fail-us", dict.fromkeys((*LISTENED, "prompt"), OPEN)),
    ],
)
def test_a_lie_trips_the_checks_about_it(lie: str, expected: dict[str, Status]) -> None:
    assert noticed(lie) == expected


def test_one_port_for_all_is_not_unique() -> None:
    found = noticed("one-for-all", "hands-out-twice")
    assert found["unique"] is FAIL
    assert found["collision"] is FAIL
    assert "allocated" not in found


def test_a_port_for_every_service_is_one_too_many() -> None:
    found = noticed("gives-to-all")
    assert (found["not-with-cluster"], found["not-for-nodeport"]) == (FAIL, FAIL)
    assert "allocated" not in found


def test_a_server_that_gives_none_leaves_open_what_rests_on_one() -> None:
    found = noticed("gives-none")
    failed = {claim for claim, status in found.items() if status is FAIL}
    assert {"allocated", "unique"} <= failed
    assert found["kept-on-update"] is OPEN
    refusals = {"refused-with-cluster", "refused-for-nodeport", "immutable"}
    assert set(found) == {check.subject.claim for check in CHECKS} - {"not-with-cluster", "not-for-nodeport"} - refusals


def test_without_a_client_outside_the_api_is_judged_all_the_same() -> None:
    assert noticed(listen=False) == dict.fromkeys((*LISTENED, "prompt"), OPEN)
    assert noticed("keeps-the-port", listen=False) == {
        "chosen": OPEN,
        "kept": OPEN,
        "freed-by-policy": FAIL,
        "freed-by-type": FAIL,
        "claimable": FAIL,
        "freed-by-deletion": OPEN,
        "prompt": OPEN,
    }


def test_a_step_that_breaks_off_says_why() -> None:
    class Quota(FakeApi):
        def create(self, collection: str, manifest: dict[str, Any]) -> dict[str, Any]:
            if manifest["metadata"]["name"] == "life-chosen":
                raise self._refusal(403, "Forbidden", "exceeded quota")
            return super().create(collection, manifest)

    facts = live(Quota())
    assert "exceeded quota" in str(facts["chosen"].refused)
    assert "not found" in facts["collision"].trouble
    assert differing(HealthEvidence(life=facts), CHECKS)["healthcheck.lifecycle.collision"] is OPEN


def test_a_service_without_ports_takes_none() -> None:
    api = FakeApi()
    api.others["elsewhere"] = {
        "metadata": {"namespace": "tenant", "name": "elsewhere"},
        "spec": {"type": "ExternalName", "externalName": "example.org"},
    }
    assert differing(HealthEvidence(life=live(api)), CHECKS) == {}


@pytest.mark.parametrize(
    ("rivals", "expected"),
    [
        ({"life-chosen": lifecycle.TRIES - 1}, {}),
        (
            {"life-chosen": lifecycle.TRIES},
            dict.fromkeys(
                ("chosen", "immutable", "collision", "collision-words", *LISTENED[1:3], "freed-by-deletion"), OPEN
            ),
        ),
        ({"life-heir": 1}, {"claimable": OPEN, "freed-by-deletion": OPEN}),
    ],
)
def test_a_port_that_another_tenant_takes_first_is_no_fault(
    rivals: dict[str, int], expected: dict[str, Status]
) -> None:
    api = FakeApi()
    api.rivals = rivals
    found = differing(HealthEvidence(life=live(api)), CHECKS)
    assert {name.rpartition(".")[2]: status for name, status in found.items()} == expected


def test_an_interrupt_ends_it() -> None:
    stop = Stop()
    stop.set()
    api = FakeApi()
    with pytest.raises(StoppedError):
        live(api, stop=stop)
    assert api.services == {}


def test_a_listener_of_another_tenant_is_no_old_one() -> None:
    class Busy(FakeApi):
        """Gives a port that is freed by a change of policy to another tenant, at once."""

        def patch(self, path: str, body: dict[str, Any], kind: str) -> dict[str, Any]:
            had = self._named(path)["spec"].get("healthCheckNodePort")
            made = super().patch(path, body, kind)
            if "externalTrafficPolicy" in body.get("spec", {}):
                self.others["rival"] = {
                    "metadata": {"namespace": "tenant", "name": "rival"},
                    "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": had},
                }
                self._sync()
            return made

        def _sync(self) -> None:
            super()._sync()
            self.open |= {each["spec"]["healthCheckNodePort"]: name for name, each in self.others.items()}

    found = differing(HealthEvidence(life=live(Busy())), CHECKS)
    statuses = {name.rpartition(".")[2]: status for name, status in found.items()}
    assert statuses == dict.fromkeys(("freed-by-policy", "claimable", "freed-by-deletion"), OPEN)


# -------------------------------------------------------------------------------------------------- how long it waits
def wait_for(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    follow_within(monkeypatch, Budget("made up", seconds, need=3, spacing=0.01))
    monkeypatch.setattr(waiting, "LEAST", 0.05)


def test_nodes_that_never_listen_use_up_the_time_of_two_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that they ought to follow meanwhile are the same ones: their time is over by then."""
    wait_for(monkeypatch, 1.0)
    began = time.monotonic()
    expected = dict.fromkeys((*LISTENED, "prompt"), OPEN) | {"chosen": FAIL, "claimable": FAIL, "kept": FAIL}
    assert noticed("nobody-listens") == expected
    assert time.monotonic() - began < 3.0


def test_nodes_that_follow_just_in_time_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeApi):
        """Opens and closes each port 0.7 s after the change."""

        def __init__(self) -> None:
            super().__init__()
            self.changed: list[tuple[float, dict[int, str]]] = []

        def _sync(self) -> None:
            super()._sync()
            self.changed.append((time.monotonic(), dict(self.open)))

        def everywhere(self, port: int) -> dict[tuple[Place, Family], Answer]:
            known = [ports for at, ports in self.changed if time.monotonic() - at > 0.7]
            self.open = known[-1] if known else {}
            return super().everywhere(port)

    wait_for(monkeypatch, 1.0)
    assert differing(HealthEvidence(life=live(Slow())), CHECKS) == {}
