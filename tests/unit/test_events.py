"""The runs of scenarios: which events each performs, and what runs at the same time. No cluster."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.interrupt import Stop
from esipp.checks.catalog import all_checks
from esipp.checks.check import Check
from esipp.ledger.run import Run, Settings
from esipp.scenarios.context import perform
from esipp.scenarios.health import run as health
from esipp.scenarios.interoperability import dns, isolation, scale
from esipp.scenarios.interoperability import run as interoperability
from esipp.scenarios.timeouts import TIMEOUTS


class Recording(Run):
    """A run that keeps the events it has to record."""

    def record(self, record: str, **fields: object) -> None:
        events.extend([f"{fields['phase']}: {fields['name']}"] if record == "event" else [])


events: list[str] = []


def context(*parts: str) -> Any:
    """What runs are given, with the checks of some parts."""
    events.clear()

    def asked(*kinds: type) -> list[Check]:
        return [each for each in all_checks() if isinstance(each.subject, kinds) and each.subject.part in parts]

    made = {"features": {"vantage.outside": SimpleNamespace(present=True)}, "ground": None}
    made["testbed"] = SimpleNamespace(balancer=SimpleNamespace(profiles=(), certain=False))
    return SimpleNamespace(
        run=Recording(Settings("kind-test"), say=lambda _: None), asked=asked, topology=SimpleNamespace(nodes={}),
        clients=None, disruptor=None, stop=Stop, timeouts=TIMEOUTS, **made,
    )  # fmt: skip


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> threading.Barrier:
    """What stands in for the scenarios waits for two others."""
    for module in (health, interoperability):
        monkeypatch.setattr(module, "Asker", lambda *_, **__: SimpleNamespace(stop=threading.Event()))
        monkeypatch.setattr(module, "replace", lambda *_, **__: None)
        monkeypatch.setattr(module, "spare", lambda *_: None)
    return threading.Barrier(3, timeout=10)


def test_health_checks_of_own_services_run_side_by_side_and_nodes_are_cordoned_alone(
    monkeypatch: pytest.MonkeyPatch, together: threading.Barrier
) -> None:
    @contextmanager
    def watched(*_: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(health, "watched", watched)
    for name in ("_live", "_leave", "_place"):
        monkeypatch.setattr(health, name, lambda *_: together.wait())
    monkeypatch.setattr(health, "_cordon", lambda *_: None)
    health.observe(context("lifecycle", "terminating", "placement", "stable", "cordoned"))
    assert sorted(events[:3]) == [
        "health scenarios: lifecycle",
        "health scenarios: placement",
        "health scenarios: terminating",
    ]
    assert events[3:] == ["cordon: cordoned"]


def test_many_services_are_made_beside_others_and_probed_alone(
    monkeypatch: pytest.MonkeyPatch, together: threading.Barrier
) -> None:
    trial = SimpleNamespace(perform=together.wait)
    monkeypatch.setattr(isolation, "Isolation", lambda *_: trial)
    monkeypatch.setattr(dns, "Lookups", lambda *_: trial)
    many = SimpleNamespace(prepare=together.wait, perform=lambda: None)
    monkeypatch.setattr(scale, "Scale", lambda *_: many)
    monkeypatch.setattr(interoperability, "_nodes", lambda _: {})
    interoperability.observe(context("neighbours", "names", "many"))
    assert len(events) == 4
    assert events[-1] == "many Services: many"


def test_events_that_share_a_disruption_happen_at_once_and_the_caller_disrupts() -> None:
    run, led = context().run, list[tuple[str, int]]()
    both = threading.Barrier(2, timeout=10)
    shared = dict.fromkeys(("proxy-stopped", "proxy-stopped-deleted"), both.wait)

    def lead(going: Sequence[Future[Any]]) -> None:
        led.append((threading.current_thread().name, len(going)))

    perform(run, "changes", {**shared, "node-left": lambda: None, "moved": lambda: None}, Stop(), lead)
    assert led == [(threading.main_thread().name, 2), (threading.main_thread().name, 1)]
    assert [events[0], sorted(events[1:3]), events[3]] == [
        "changes: moved",
        ["changes: proxy-stopped", "changes: proxy-stopped-deleted"],
        "changes: node-left",
    ]
