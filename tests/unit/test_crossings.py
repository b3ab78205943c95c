"""The tables of events and streams: no field without a check or a reason, and no check of a change beside them."""

import pytest

from esipp.checks.catalog import crossings
from esipp.checks.crossing import Crossing, Field
from esipp.checks.endpoint_change import What
from suites.compatibility import crossing as policies
from suites.compatibility.isolation import CHECKS as POLICY_CHECKS
from suites.convergence import crossing as endpoints
from suites.convergence.checks import CHECKS as ENDPOINT_CHECKS
from suites.convergence.checks import VIEWS

AFTERWARDS = {What.BALANCE, What.THRESHOLD, *VIEWS}
"""What is judged after all changes, and belongs to no event."""


@pytest.mark.parametrize("crossing", crossings(), ids=lambda crossing: crossing.suite)
def test_each_field_has_a_check_or_a_reason(crossing: Crossing) -> None:
    assert crossing.fields.keys() == {(event, stream) for event in crossing.events for stream in crossing.streams}
    for field in crossing.fields.values():
        assert field.judged or field.recorded or field.empty
        assert not {*field.judged} & {*(field.empty or {})}
        assert all((field.empty or {}).values())


def test_each_check_of_an_endpoint_change_is_in_the_table() -> None:
    fields = endpoints.CROSSING.fields.values()
    found = {claim for field in fields for claim in (*field.judged, *field.recorded)}
    assert found == {check.subject.what.value for check in ENDPOINT_CHECKS if check.subject.what not in AFTERWARDS}


def test_each_check_of_a_policy_change_is_in_the_table() -> None:
    made = {check.id for stream in policies.SENT for _, check in policies.about(stream)}
    assert made == {check.id for check in POLICY_CHECKS}


def test_a_reason_of_every_stream_is_told_once_and_letters_in_a_row_are_a_range() -> None:
    why = ["one", "two", "three", "four"]
    fields = {
        ("moved", "udp"): Field(("vip",), empty=dict(zip("pqr", why[:3], strict=True))),
        ("moved", "tcp"): Field(empty=dict(zip("pqrs", why, strict=True))),
        ("deleted", "udp"): Field(("vip",), ("pod",)),
        ("deleted", "tcp"): Field(empty={"vip": "four", "pod": "one"}),
    }
    crossing = Crossing(
        "made-up", dict.fromkeys(("moved", "deleted"), ""), dict.fromkeys(("udp", "tcp"), ""), {}, fields
    )
    assert [*crossing.rows()] == [
        ("moved", "a-c", "1 of 4", "- (d)"),
        ("deleted", "", "1 of 2, 1 recorded", "- (a, d)"),
    ]
