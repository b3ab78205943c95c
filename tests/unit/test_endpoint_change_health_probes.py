"""Health checks of the balancer as packets: their times are the wall clock's, which may be stepped."""

from typing import Any, cast

import pytest

from esipp.packets.capture import IN, REQUEST, Capture, Sighting
from esipp.scenarios.endpoint_change import health_probes as module
from esipp.scenarios.endpoint_change.health_probes import ProbeCapture


class Tap:
    """A tap that saw one question to a health-check port."""

    def __init__(self, at: float) -> None:
        ends: dict[str, Any] = {"source": ("192.0.2.9", 40000), "destination": ("192.0.2.1", 31000)}
        self.capture = Capture("node-a", sightings=(Sighting("node-a", "eth0", IN, at, "TCP", REQUEST, 1, **ends),))

    def stop(self) -> Capture:
        return self.capture


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_a_clock_that_goes_on_tells_when_it_was_asked(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    capture = heard(monkeypatch, step)
    (arrival,) = capture.end()["checked"]
    assert arrival.at == pytest.approx(20.0 - step)
    assert not capture.trouble


@pytest.mark.parametrize(("step", "expected"), [(3600.0, "+3600 s"), (-3600.0, "-3600 s")])
def test_a_clock_that_was_stepped_tells_nothing(monkeypatch: pytest.MonkeyPatch, step: float, expected: str) -> None:
    capture = heard(monkeypatch, step)
    assert capture.end() == {"checked": []}
    assert capture.trouble == f"the clock jumped by {expected} during the packet capture"


def heard(monkeypatch: pytest.MonkeyPatch, step: float) -> ProbeCapture:
    """One that began when the wall clock was 1000 s ahead of the monotonic one; then the clock is stepped."""
    capture = ProbeCapture(cast(Any, None), {31000: "checked"}, ours=())
    capture._taps, capture._offset = [cast(Any, Tap(1020.0))], 1000.0
    monkeypatch.setattr(module, "Tap", Tap)
    monkeypatch.setattr(module, "_offset", lambda: 1000.0 + step)
    return capture
