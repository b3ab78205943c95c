"""What is kept of runs on kind dressed as a cloud, and the page of it."""

from pathlib import Path
from typing import Any

import pytest

from ci import clouds
from ci.step import SetupError
from esipp.base.json import Json


def report(lane: str = "as-gke", **changes: Any) -> Json:
    """What is read of a report."""
    phases = [
        {"family": family, "direction": way, "phase": phase, "n": n, "max": longest}
        for family, n, longest in (("IPv4", 4, 23.51), ("IPv6", 3, 17.96))
        for way, phase in (clouds.DOWN, ("down", "trigger to traffic"), clouds.UP)
    ]
    balancer = {
        "name": "default",
        "observed": {"gaps": {"p50": 8.0}, "failures": [3, 3, 3]},
        "distributions": phases,
    }
    check = {"id": "a", "level": "core", "status": "pass"}
    worse = {"id": "c", "level": "extended", "status": "fail"}
    written = {
        "run": {"lane": lane, "began": "2026-11-22T13:10:18Z"},
        "conclusion": {"result": "conformant"},
        "phases": [{"name": "observe", "seconds": 100.2}, {"name": "moves", "seconds": 501.0}],
        "facts": [
            {"name": "kubernetes", "value": "v1.36.3"},
            {"name": "load-balancer.profile", "value": "gke-legacy"},
            {"name": "load-balancer.class", "value": "forwarder"},
        ],
        "rows": [check, check | {"id": "b"}, worse, check | {"status": ""}],
        "convergence": {"balancers": [{"name": "quick"}, balancer]},
    }
    return written | changes


ABOUT = {"cores": 2, "commit": "abc1234"}


def test_a_run_is_kept_in_place_of_an_earlier_one_of_its_lane(tmp_path: Path) -> None:
    kept = tmp_path / "clouds.jsonl"
    clouds.keep(report(), ABOUT, kept)
    clouds.keep(report("as-aks"), ABOUT, kept)
    clouds.keep(report(conclusion={"result": "partial"}), ABOUT, kept)
    loaded = clouds.load(kept)
    assert [*loaded] == ["as-aks", "as-gke"]
    one = loaded["as-gke"]
    assert one["result"] == "partial"
    assert one["rows"] == {"core pass": 2, "extended fail": 1}
    assert one["bad"] == ["c: fail"]
    assert one["seconds"] == 601
    assert (one["down"], one["failures"], one["period"]) == ({"n": 7, "max": 23.5}, [3], 8.0)


def test_the_page_holds_what_was_seen_against_the_profile(tmp_path: Path) -> None:
    clouds.keep(report(), ABOUT | {"judged_again": True}, tmp_path / "kept")
    page = clouds.render(clouds.load(tmp_path / "kept"))
    assert (
        "| every 8 s, unhealthy after 3 | 32 s | every 8.0 s, unhealthy after 3 "
        "| 23.5 s (7 changes) | 23.5 s (7 changes) |" in page
    )
    assert "`as-gke`: re-evaluated" in page
    assert "`as-gke`, not passed: c: fail." in page


@pytest.mark.parametrize(
    ("ingress", "expected"), [("hostname", "a hostname"), ("Proxy", "an address, ipMode Proxy"), ("", "-")]
)
def test_how_vips_were_announced_is_reported(tmp_path: Path, ingress: str, expected: str) -> None:
    given = report()
    given["facts"] += [{"name": "load-balancer.ingress", "value": ingress}] if ingress else []
    clouds.keep(given, ABOUT, tmp_path / "kept")
    assert f"| forwarder | {expected} | every 8 s" in clouds.render(clouds.load(tmp_path / "kept"))


def test_what_no_balancer_was_seen_to_do_is_left_open(tmp_path: Path) -> None:
    reported = report()
    reported["convergence"]["balancers"][1]["distributions"] = []
    clouds.keep(reported, ABOUT, tmp_path / "kept")
    assert "| - | - |" in clouds.render(clouds.load(tmp_path / "kept"))


def test_a_run_without_endpoint_changes_is_kept_as_well(tmp_path: Path) -> None:
    clouds.keep(report() | {"convergence": {"balancers": []}}, {"cores": 2, "commit": "abc"}, tmp_path / "kept")
    assert "| every 8 s, unhealthy after 3 | 32 s | - | - | - |" in clouds.render(clouds.load(tmp_path / "kept"))


def test_only_lanes_that_are_dressed_as_a_cloud_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SetupError, match="kind-iptables does not emulate a cloud"):
        clouds.keep(report("kind-iptables"), ABOUT, tmp_path / "kept")
    with pytest.raises(SystemExit) as left:
        clouds.main(["--record", str(tmp_path)])
    assert left.value.code == 4
    assert "hint: name folders of finished runs" in capsys.readouterr().err
