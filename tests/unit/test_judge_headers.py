"""What a proxy tells of the client out of band."""

import pytest

from esipp.checks.check import Status
from esipp.checks.model import Claim, Family
from esipp.checks.path import PathCheck
from esipp.judging.observation import Observation
from tests.unit.world import (
    CLIENT_ADDRESSES,
    VIP,
    answer,
    by_id,
    group,
    header,
    verdict,
)

PROXIED = "loadbalancer.reference-proxy-{}.local.several-ports.tcp.ipv4.outside-1-to-vip"
FORWARDED_FOR = PROXIED.format("xff") + ".port-http"
OWN = CLIENT_ADDRESSES["outside-1"][Family.IPV4]


def proxied(path_check: PathCheck, **echo: object) -> Observation:
    return answer(path_check.subject.path, VIP[Family.IPV4], **echo)


@pytest.mark.parametrize("identity", [FORWARDED_FOR, PROXIED.format("v1"), PROXIED.format("v2")])
def test_the_client_reported_in_a_header_is_preserved_out_of_band(identity: str) -> None:
    path_check = by_id(identity)
    said = verdict(path_check, proxied(path_check))
    assert said.status is Status.PASS
    assert f"preserved out of band, in {path_check.subject.reported.value}" in said.reason
    assert "in " + path_check.subject.reported.value in said.expected


@pytest.mark.parametrize("identity", [FORWARDED_FOR, PROXIED.format("v1"), PROXIED.format("v2")])
@pytest.mark.parametrize("address", ["203.0.113.7", "unknown", ""])
def test_a_wrong_address_in_a_header_fails(identity: str, address: str) -> None:
    path_check = by_id(identity)
    said = verdict(path_check, proxied(path_check, **header(path_check.subject.reported, address)))
    assert said.status is Status.FAIL
    assert f"the backend got {address or 'no address'} in {path_check.subject.reported.value}" in said.reason
    assert OWN in said.reason


def test_one_wrong_report_of_many_is_flaky() -> None:
    path_check = by_id(FORWARDED_FOR)
    wrong = proxied(path_check, **header(path_check.subject.reported, "203.0.113.7"))
    said = verdict(path_check, group(proxied(path_check), 199), group(wrong, 1))
    assert said.status is Status.FLAKY
    assert "1 of 200" in said.reason
    assert "203.0.113.7" in said.reason


@pytest.mark.parametrize("lines", [[], None])
def test_no_header_at_all_fails(lines: list[str] | None) -> None:
    path_check = by_id(FORWARDED_FOR)
    said = verdict(path_check, proxied(path_check, x_forwarded_for=lines))
    assert said.status is Status.FAIL
    assert "no address" in said.reason


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([f"203.0.113.7, {OWN}"], Status.PASS),
        (["203.0.113.7", OWN], Status.PASS),
        ([f"{OWN}, 203.0.113.7"], Status.FAIL),
        ([OWN, "203.0.113.7"], Status.FAIL),
    ],
)
def test_only_the_last_entry_is_the_proxys_own_word(lines: list[str], status: Status) -> None:
    path_check = by_id(FORWARDED_FOR + ".claims-x-forwarded-for")
    assert verdict(path_check, proxied(path_check, x_forwarded_for=lines)).status is status


def test_another_version_of_the_proxy_protocol_tells_nothing() -> None:
    path_check = by_id(PROXIED.format("v2"))
    said = verdict(path_check, proxied(path_check, **header(Claim.PROXY_V1, OWN)))
    assert said.status is Status.FAIL
    assert "no address" in said.reason
