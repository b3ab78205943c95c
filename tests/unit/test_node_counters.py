"""What nodes' connection tracking lost during a run: sums over CPUs, differences, and what cannot be read."""

import sys

from esipp.testbed.node_counters import Tracking, losses, read_all

NAMES = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error"


def printed(*cpus: tuple[int, int, int], entries: int = 100, limit: int = 1000) -> str:
    rows = [f"00000064 {'00000000 ' * 8} {failed:08x} {drop:08x} {early:08x} 00000000" for failed, drop, early in cpus]
    return "\n".join((NAMES, *rows, str(entries), str(limit)))


def test_counters_are_hexadecimal_and_of_each_cpu() -> None:
    found = Tracking.read(printed((16, 1, 0), (2, 0, 3)))
    assert found == Tracking({"insert_failed": 18, "drop": 1, "early_drop": 3}, 100, 1000)


def test_only_what_was_lost_meanwhile_is_reported() -> None:
    before = {name: Tracking.read(printed((5, 5, 5))) for name in ("a", "b")}
    after = {"a": Tracking.read(printed((5, 5, 5))), "b": Tracking.read(printed((5, 9, 6))), "c": before["a"]}
    assert losses(before, after) == {
        "b": "packets dropped because the table was full: 4, connections forgotten early to make room: 1"
    }


def test_a_table_that_is_nearly_full_is_reported() -> None:
    calm, full = (Tracking.read(printed((0, 0, 0), entries=entries)) for entries in (899, 900))
    assert losses({"a": calm}, {"a": calm}) == {}
    assert losses({"a": calm}, {"a": full}) == {"a": "900 of at most 1,000 entries are in use"}


def test_a_counter_that_began_again_is_no_loss() -> None:
    assert Tracking.read(printed((0, 0, 0))).since(Tracking.read(printed((9, 9, 9)))) == ""


def test_nodes_that_cannot_be_read_are_left_out() -> None:
    says = {"good": f"print({printed((1, 0, 0))!r})", "other": "print(1)", "broken": "raise SystemExit(1)", "empty": ""}
    says["short"] = says["good"].replace("entries", "entries more")
    found = read_all([*says, "gone"], lambda node, _: [sys.executable, "-c", says[node]] if node in says else ["/none"])
    assert set(found) == {"good"}
