"""Covering designs: every pair is held, the same arguments give the same rows, and what is not asked is reported."""

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest

from esipp.checks.catalog import checks_of, designs
from esipp.checks.check import checks_about
from esipp.checks.connections import Aspect, OnConnections
from esipp.checks.covering import PAIRS, THREES, Design, combined, cover
from esipp.checks.model import Client, Family, Path
from esipp.checks.path import OnPath
from suites import clients
from suites.vantages.checks import (
    BEHIND,
    CLIENTS,
    DESIGN,
    ELSEWHERE,
    EVERY_CLIENT,
    FULL,
    LACKING,
    OF_THESE_CLIENTS,
    POLICIES,
    ROWS,
    SEED,
)

FULL_OF_FOUR = tuple(product("abcd", range(4), "xyz", (True, False)))


@pytest.mark.parametrize("seed", range(5))
def test_every_pair_is_held_by_few_rows(seed: int) -> None:
    rows = cover(FULL_OF_FOUR, seed)
    assert combined(rows, PAIRS) == combined(FULL_OF_FOUR, PAIRS)
    assert 16 <= len(rows) <= 22
    assert cover(FULL_OF_FOUR, seed) == rows


def test_only_what_is_possible_is_chosen() -> None:
    possible = tuple(row for row in FULL_OF_FOUR if row[:2] != ("a", 0))
    rows = cover(possible, 1)
    assert set(rows) <= set(possible)
    assert combined(rows, PAIRS) == combined(possible, PAIRS)


def test_what_comes_first_stays_and_counts() -> None:
    first = FULL_OF_FOUR[:10]
    rows = cover(FULL_OF_FOUR, 1, first)
    assert rows[:10] == first
    assert combined(rows, PAIRS) == combined(FULL_OF_FOUR, PAIRS)
    assert len(rows) < len(first) + len(cover(FULL_OF_FOUR, 1))


def test_whatever_rows_are_lacking_the_others_hold_every_pair() -> None:
    lacking = (lambda row: row[0] == "a", lambda row: row[2] == "x", lambda row: row[3])
    rows = cover(FULL_OF_FOUR, 1, lacking=lacking)
    assert 22 < len(rows) < len(FULL_OF_FOUR) / 2
    for several in range(4):
        for those in combinations(lacking, several):
            left = [row for row in FULL_OF_FOUR if not any(lacks(row) for lacks in those)]
            assert combined(set(rows).intersection(left), PAIRS) == combined(left, PAIRS)


def test_the_design_of_the_suite_asks_every_pair_and_the_usual_paths_in_full() -> None:
    assert designs() == {"vantages": DESIGN}
    assert DESIGN.rows == cover(ROWS, SEED, (*ELSEWHERE, *OF_THESE_CLIENTS), LACKING)
    held, all_of = DESIGN.share(PAIRS)
    assert held == all_of
    assert set(FULL) <= set(DESIGN.rows)
    assert len(FULL) == len(BEHIND) * 2 * 3 * 2, "nodePort and VIP, three protocols, two families"
    assert {row[5] for row in DESIGN.rows} == set(POLICIES)
    own = checks_about(OnPath, checks_of("vantages"))
    assert {check.subject.path for check in own} == set(map(DESIGN.path, DESIGN.own))
    rows = (check.id for row in DESIGN.own for check in DESIGN.checks(row))
    assert {check.id for check in own} == {f"vantage.{name}" for name in rows}


def test_the_design_has_every_client_and_few_paths_that_no_other_suite_has() -> None:
    named = {each for each in vars(clients).values() if isinstance(each, Client)} - {clients.BACKEND}
    assert set(EVERY_CLIENT) == named
    assert len(named) == 13
    others = {check.subject.path for suite in ("source_ip", "interoperability")
              for check in checks_about(OnPath, checks_of(suite))}  # fmt: skip
    assert {DESIGN.path(row) for row in DESIGN.rows} - others == {DESIGN.path(row) for row in DESIGN.own}
    assert DESIGN.without.share(PAIRS)[0] < DESIGN.share(PAIRS)[0]
    assert len(DESIGN.own) < 100
    assert set(OF_THESE_CLIENTS) <= set(DESIGN.own)
    assert {row[0] for row in OF_THESE_CLIENTS} == set(CLIENTS)


@pytest.mark.parametrize("missing", [LACKING[:1], LACKING[1:2], LACKING[:3], LACKING])
def test_a_cluster_that_lacks_something_is_asked_every_pair_that_it_can_have(missing: tuple[Any, ...]) -> None:
    possible = [row for row in ROWS if not any(lacks(row) for lacks in missing)]
    assert combined(set(DESIGN.rows).intersection(possible), PAIRS) == combined(possible, PAIRS)


def test_pairs_that_the_product_does_not_have_have_a_reason() -> None:
    excluded = {tuple(pair.values()): why for pair, why in DESIGN.excluded_pairs}
    assert excluded["outside-1", "clusterip"] == "no route leads from outside to a ClusterIP"
    assert ("second-address", "control-plane") in excluded
    assert len(excluded) == 8
    (first, *others) = DESIGN.say_excluded()
    assert first.startswith("left out of the product: outside-1 with clusterip, outside-2 with clusterip, ")
    assert first.endswith("outside-nat with clusterip: no route leads from outside to a ClusterIP")
    assert len(others) == 2


def test_what_connections_show_together_is_asked_of_these_clients_too() -> None:
    together = {check.id for check in checks_about(OnConnections, checks_of("vantages"))}
    assert {f"vantage.connections.nodeport.{protocol}.ipv6.first" for protocol in ("tcp", "udp", "sctp")} <= together
    assert all(any(f".{aspect.value}" in name for name in together) for aspect in Aspect)
    needed = frozenset.intersection(*(check.features for check in checks_about(OnConnections, checks_of("vantages"))))
    assert {"vantage.outside.routed", "vantage.outside.nat"} <= needed, "else they are undecided where these are not"


def of_three(*rows: tuple[str, str | None, int]) -> Design:
    """A design of a product of twelve rows, whose second factor may have no value."""
    return Design(("x", "y", "z"), tuple(product("abc", ("p", None), (1, 2))), rows, lambda _row: Path.__new__(Path))


def test_pairs_that_no_path_has_are_named() -> None:
    rows = tuple(row for row in product("abc", ("p", None), (1, 2)) if row[:2] != ("b", None) and row[1:] != ("p", 2))
    design = replace(of_three(*rows), absent={"y": "no y"})
    assert design.missing == [
        {"x": "b", "y": "no y"},
        {"x": "b", "z": "2"},
        {"y": "p", "z": "2"},
    ]
    assert list(design.not_asked()) == ["no path has b with no y, b with 2, p with 2"]
    assert list(design.not_asked(lambda rows: f"{len(rows)} rows")) == [
        "no path has b with no y, b with 2; 2 rows",
        "no path has p with 2; 3 rows",
    ]
    assert of_three(*product("abc", ("p", None), (1, 2))).missing == []
    assert list(of_three(*product("abc", ("p", None), (1, 2))).not_asked()) == []


def test_values_that_no_path_has_are_named_and_the_pairs_of_others() -> None:
    rows = tuple(row for row in FULL_OF_FOUR if row[0] in "ab" and row[2] != "z" and row[:2] != ("a", 3))
    design = Design(("p", "q", "r", "s"), FULL_OF_FOUR, rows, lambda _row: Path.__new__(Path))
    assert list(design.not_asked()) == ["no path has p c or d", "no path has r z", "no path has a with 3"]
    assert next(design.not_asked(lambda rows: rows[0][0])) == "no path has p c; c"


def test_many_pairs_that_no_path_has_are_counted_for_each_value() -> None:
    rows = tuple(zip("abcd", range(4), "xyzx", (True, False) * 2, strict=True))
    design = Design(("p", "q", "r", "s"), FULL_OF_FOUR, rows, lambda _row: Path.__new__(Path))
    by_p, _, by_r, by_s = design.not_asked()
    assert by_p == "of 38 more pairs that no path has, by p: a 6, b 6, c 6, d 6"
    assert by_r == "of 38 more pairs that no path has, by r: x 4, y 7, z 7"
    assert by_s == "of 38 more pairs that no path has, by s: True 5, False 5"


def test_the_pairs_of_the_suite_have_names() -> None:
    ipv4 = DESIGN.only({DESIGN.path(row) for row in DESIGN.rows if row[4] is Family.IPV4})
    assert {"client": "outside-nat", "family": "IPv6"} in ipv4.missing
    none = replace(DESIGN, rows=())
    names = {name for pair in none.missing for name in pair.items()}
    assert {("node", "no node"), ("policy", "unset policy"), ("entry", "vip"), ("protocol", "SCTP")} <= names
    assert {value for factor, value in names if factor == "client"} == {client.name for client in EVERY_CLIENT}
    assert len(none.missing) == DESIGN.share(PAIRS)[1]


def test_what_a_run_does_not_ask_is_reported() -> None:
    half = DESIGN.only({DESIGN.path(row) for row in DESIGN.rows[:30]})
    assert len(half.rows) == 30
    assert half.share(PAIRS)[0] < DESIGN.share(PAIRS)[0]
    assert half.share(THREES)[1] == DESIGN.share(THREES)[1]
    assert half.words.startswith(f"30 of {len(ROWS):,} paths; of client, entry, node, protocol, family and policy ")
    assert "without the" not in half.words, "the first ones are those of other suites"
    without = DESIGN.without
    assert DESIGN.words.endswith(f"; without the {len(DESIGN.own)} paths that it adds, {without._shares}")
    assert "341 of 341 pairs (100%) and " in DESIGN.words
