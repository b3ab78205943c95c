"""The generator of docs/excuses.md: each known difference and tolerance, its evidence, and what it can still hide."""

from collections.abc import Iterator, Mapping, Sequence

from ci.tolerances import PASSES, UNDECIDED, Tolerance
from esipp.base.markdown import table_text
from esipp.checks.catalog import all_checks
from esipp.checks.check import Level
from esipp.checks.expiry import all_claims
from esipp.checks.known_differences import KnownDifference, Nature
from esipp.report.escaping import links

HEAD = """# Known differences, tolerances and doubts

Generated from the checks and the judges by `ci/generate`. Do not edit.

This page lists everything that may be other than required and fails no check, and what it can hide: known differences,
[what passes](#what-passes) and [what leaves a check undecided](#what-leaves-a-check-undecided).

A check that deviates for a known reason has the verdict `known`: neither a pass nor a failure. Reports count these
checks separately, by nature:

| | |
|---|---|
| allowed | the API does not forbid the behaviour |
| known defect | an issue of the project confirms the defect |
| finding | this suite observed it; no issue is known |

A known difference requires evidence. It covers only the connections that show this evidence: with one other deviating
connection, the check is `flaky` or `fail`. Each run detects the facts under *where* on the cluster; `esipp run` prints
them with their sources. Facts that begin with `service.` describe the Service under test.
"""

ORDER = tuple(Nature)
"""Order of the sections; allowed differences come first."""


OF_PASSES = """
## What passes

No judge asks for more than can be measured. What a check tolerates, and the [breaks](broken.md) that it notices all the
same:

"""

OF_UNDECIDED = """
## What leaves a check undecided

These causes turn a failure into `inconclusive`. An undecided core check ends the run with exit code 3.

"""


def page() -> str:
    """The page."""
    known = "".join(f"\n## {nature.value.capitalize()}\n\n{_table(nature)}" for nature in ORDER)
    heads = ("why", "what it can still hide", "noticed all the same")
    passes = _tolerances(("tolerated", *heads), PASSES)
    return HEAD + known + OF_PASSES + passes + OF_UNDECIDED + _tolerances(("undecided", *heads), UNDECIDED)


def _tolerances(heads: Sequence[str], found: Sequence[Tolerance]) -> str:
    rows = ((each.what, each.why, each.hides, ", ".join(f"`{name}`" for name in each.seen) or "-") for each in found)
    return table_text(heads, rows)


def _table(nature: Nature) -> str:
    core = {check.id for check in all_checks() if check.level is Level.CORE}
    claims = {claim: ids for claim, ids in all_claims().items() if claim.nature is nature}
    heads = ("difference", "where", "checks (core)", "required evidence", "what it can still hide")
    return table_text(heads, _rows(claims, core))


def _rows(claims: Mapping[KnownDifference, frozenset[str]], core: set[str]) -> Iterator[tuple[str, ...]]:
    for claim, ids in sorted(claims.items(), key=lambda each: (-len(each[1] & core), -len(each[1]), each[0].where)):
        what = f"{_escaped(claim.reason)}; {_escaped(links(claim.references))}"
        what += f"; still there: {_escaped(links([claim.still]))}" if claim.still else ""
        count = f"{len(ids)} ({len(ids & core)})"
        yield what, _escaped(claim.where), count, _escaped(claim.evidence), _escaped(claim.hides)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
