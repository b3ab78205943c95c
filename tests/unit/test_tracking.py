"""Connection tracking as a witness: tables as ``conntrack -L`` prints them, and connections followed through them."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from esipp.checks.model import Outcome
from esipp.judging.observation import Observation, Tracked
from esipp.packets.tracking import Reader, Tracking, reachable, read_tables, table_of

CLIENT, DIALLED, POD, NODE = ("192.0.2.9", 40000), ("192.0.2.1", 30080), ("10.244.1.5", 8080), "192.0.2.1"
ECHO = {"protocol": "http", "node": "a", "pod": "echo-a", "local_address": POD[0], "local_port": POD[1]}
MADE = Observation("path", 0, Outcome.ANSWERED, source=CLIENT, dialled=DIALLED, seen=CLIENT, echo=ECHO)


def entry(came: tuple[str, int], to: tuple[str, int], back: tuple[str, int], back_to: tuple[str, int]) -> str:
    """A line for a closed connection: as it came, and how answers go back."""
    first = f"src={came[0]} dst={to[0]} sport={came[1]} dport={to[1]}"
    second = f"src={back[0]} dst={back_to[0]} sport={back[1]} dport={back_to[1]}"
    return f"tcp      6 117 TIME_WAIT {first} {second} [ASSURED] mark=0 use=1\n"


PRESERVED = entry(CLIENT, DIALLED, POD, CLIENT)
MASQUERADED = entry(CLIENT, DIALLED, POD, ("10.244.1.1", 40000))


def tracked(made: Observation, **tables: str) -> Tracked | None:
    return Tracking({node: table_of(text) for node, text in tables.items()}).testify({"path": [made]}).get("path")


def test_a_table_is_read_as_the_tool_prints_it() -> None:
    udp = (
        "udp      17 29 src=fd00::9 dst=fd00::1 sport=5 dport=6 [UNREPLIED]"
        " src=fd00:1::5 dst=fd00::9 sport=7 dport=5 mark=0"
    )
    counted = (
        "sctp     132 9 CLOSED src=1.1.1.1 dst=2.2.2.2 sport=1 dport=2 packets=3 bytes=4"
        " src=3.3.3.3 dst=1.1.1.1 sport=8 dport=1"
    )
    icmp = "icmp     1 29 src=1.1.1.1 dst=2.2.2.2 type=8 code=0 id=1 src=2.2.2.2 dst=1.1.1.1 type=0 code=0 id=1"
    assert table_of("\n".join((PRESERVED.strip(), udp, counted, icmp, "conntrack v1.4.7"))) == {
        ("tcp", CLIENT, DIALLED): ("tcp", CLIENT, POD),
        ("udp", ("fd00::9", 5), ("fd00::1", 6)): ("udp", ("fd00::9", 5), ("fd00:1::5", 7)),
        ("sctp", ("1.1.1.1", 1), ("2.2.2.2", 2)): ("sctp", ("1.1.1.1", 1), ("3.3.3.3", 8)),
    }


def test_a_backend_that_says_what_its_node_tracked_is_believed() -> None:
    assert tracked(MADE, a=PRESERVED) == Tracked(1)


def test_a_backend_that_hides_a_rewritten_source_is_contradicted() -> None:
    found = tracked(MADE, a=MASQUERADED)
    assert found == Tracked(
        0, 1, "the backend reports the peer 192.0.2.9:40000, connection tracking on a has 10.244.1.1:40000"
    )


def test_a_backend_that_invents_a_rewritten_source_is_contradicted() -> None:
    found = tracked(replace(MADE, seen=("10.244.1.1", 40000)), a=PRESERVED)
    assert found is not None
    assert found.contradicted == 1


@pytest.mark.parametrize("again", [False, True], ids=["not rewritten there", "rewritten there too"])
def test_a_connection_is_followed_from_the_node_that_was_dialled_to_the_backends(again: bool) -> None:
    other = ("192.0.2.2", 30080)
    made = replace(MADE, dialled=other, seen=("192.0.2.2", 7))
    there = entry(("192.0.2.2", 7), POD, POD, ("10.244.1.1", 8) if again else ("192.0.2.2", 7))
    found = tracked(made, b=entry(CLIENT, other, POD, ("192.0.2.2", 7)), a=there)
    assert found is not None
    assert (found.agreed, found.contradicted) == ((0, 1) if again else (1, 0))


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"a": entry(CLIENT, ("192.0.2.1", 30081), POD, CLIENT)},  # another port was dialled
        {"a": entry(("192.0.2.9", 40001), DIALLED, POD, CLIENT)},  # another connection
        {"b": PRESERVED},  # the backend's own node may have rewritten it once more
        {"a": PRESERVED, "b": entry(CLIENT, DIALLED, POD, ("10.244.2.1", 1))},  # two nodes, two ways
        {"a": entry(CLIENT, DIALLED, ("10.244.1.6", 8080), CLIENT)},  # it went to another pod
    ],
)  # fmt: skip
def test_what_the_tables_do_not_show_says_nothing(tables: dict[str, str]) -> None:
    assert tracked(MADE, **tables) is None


def test_entries_that_lead_round_in_a_circle_say_nothing() -> None:
    one, other = ("192.0.2.1", 30080), ("192.0.2.2", 30080)
    assert tracked(MADE, a=entry(CLIENT, one, other, CLIENT), b=entry(CLIENT, other, one, CLIENT)) is None


def test_each_connection_of_a_group_is_looked_up_by_its_own_port() -> None:
    group = replace(MADE, count=3, ports=((40000, 40000), (40001, 40001), (40002, 40002)))
    moved = entry(("192.0.2.9", 40002), DIALLED, POD, ("192.0.2.1", 1024))
    assert tracked(group, a=PRESERVED + entry(("192.0.2.9", 40001), DIALLED, POD, ("192.0.2.9", 40001)) + moved) == (
        Tracked(2, 1, "the backend reports the peer 192.0.2.9:40002, connection tracking on a has 192.0.2.1:1024")
    )


def test_another_port_of_the_right_source_says_nothing() -> None:
    """An earlier flow had the same ends: so it was with a few of 126,200 connections on kind-iptables (2026-11-27)."""
    assert tracked(MADE, a=entry(CLIENT, DIALLED, POD, (CLIENT[0], 1024))) is None


def test_only_answers_are_looked_up() -> None:
    assert tracked(replace(MADE, outcome=Outcome.TIMEOUT), a=PRESERVED) is None
    assert tracked(replace(MADE, seen=None), a=PRESERVED) is None


@pytest.mark.parametrize(("cores", "found"), [(4, 2), (2, 1)])
def test_tables_are_read_during_a_window_where_the_machine_bears_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, found: int
) -> None:
    """A kernel forgets: what one reading has, the next one lacks."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    table, asked = tmp_path / "table", tmp_path / "asked"
    table.write_text(PRESERVED)
    said = ["sh", "-c", f"cat {table}; touch {asked}"]
    with Reader({"a": said}, every=0.01) as reader:
        until = time.monotonic() + (30.0 if cores == 4 else 0.2)
        while not asked.exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert asked.exists() is (cores == 4)
        table.write_text(entry(("192.0.2.9", 40001), DIALLED, POD, CLIENT))
        assert len(reader.end()["a"]) == found


def test_a_window_that_breaks_off_ends_the_readings() -> None:
    with Reader({}) as reader:
        pass
    assert reader.end() == {}


def test_a_node_that_cannot_be_asked_has_no_table() -> None:
    said = ["sh", "-c", f"printf '%s' '{PRESERVED}'"]
    assert list(read_tables({"a": said, "b": ["false"], "c": ["/no/such/program"]})) == ["a"]
    ways = {"a": ["docker", "exec", "a"]}
    assert reachable("ab", lambda node, _: ways.get(node)) == ways
