"""What the balancer drops of ICMP, so that HAProxy makes no busy loop of it."""

import stat
from pathlib import Path

import pytest

from images.loadbalancer.balancer.icmp import ignore_refusals


def program(folder: Path, script: str) -> str:
    made = folder / "nft"
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(made.stat().st_mode | stat.S_IXUSR)
    return str(made)


def test_refusals_from_the_network_are_dropped_and_nothing_else(tmp_path: Path) -> None:
    ignore_refusals(program(tmp_path, f"cat > {tmp_path}/rules"))
    rules = (tmp_path / "rules").read_text().splitlines()
    at = [number for number, line in enumerate(rules) if line.endswith(("accept", "drop"))]
    assert [rules[number].strip() for number in at] == [
        'iifname "lo" accept',
        "icmp type destination-unreachable icmp code != 4 drop",
        "icmpv6 type destination-unreachable drop",
    ]
    assert rules[:2] == ["table inet esipp_icmp", "delete table inet esipp_icmp"], "a second start changes nothing"


def test_a_kernel_without_nftables_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ignore_refusals(program(tmp_path, "cat >/dev/null; echo no such thing >&2; exit 1"))
    assert capsys.readouterr().err == "nft: no such thing\n"
