"""docs/excuses.md: every known difference, what must have been seen for it, and what it can still hide."""

from collections.abc import Iterator, Mapping

from esipp.checks.catalog import all_checks
from esipp.checks.check import Level, Nature
from esipp.checks.known_differences import Claim, all_claims
from esipp.report.escaping import links

HEAD = """# Known differences

Generated from the checks by `ci/generate`. Do not edit.

A check that differs for a known reason is `known`, which is neither a pass nor a failure. It is counted apart, by what
it
is:

| | |
|---|---|
| allowed | the API does not forbid it |
| known defect | a project's own issue says that it is one |
| finding | this suite saw it; no issue is known |

An excuse names what was seen. It covers the connections whose evidence it has, and no others: one more, and the check
is `flaky` or `fail`. The facts under *where* are found on the cluster; `esipp run` prints them and how each was
decided. Facts that begin with `service.` are about the one Service that is dialled.
"""

ORDER = tuple(Nature)
"""What is allowed comes first."""


def page() -> str:
    """The page."""
    return HEAD + "".join(f"\n## {nature.value.capitalize()}\n\n{_table(nature)}" for nature in ORDER)


def _table(nature: Nature) -> str:
    core = {check.id for check in all_checks() if check.level is Level.CORE}
    claims = {claim: ids for claim, ids in all_claims().items() if claim.nature is nature}
    return "\n".join(
        [
            "| difference | where | checks (core) | what must have been seen | what it can still hide |",
            "|---|---|---|---|---|",
            *_lines(claims, core),
            "",
        ]
    )


def _lines(claims: Mapping[Claim, frozenset[str]], core: set[str]) -> Iterator[str]:
    for claim, ids in sorted(claims.items(), key=lambda each: (-len(each[1] & core), -len(each[1]), each[0].where)):
        what = f"{_table_cell(claim.reason)}; {_table_cell(links(claim.references))}"
        told = (
            what,
            _table_cell(claim.where),
            f"{len(ids)} ({len(ids & core)})",
            _table_cell(claim.evidence),
            _table_cell(claim.hides),
        )
        yield f"| {' | '.join(told)} |"


def _table_cell(text: str) -> str:
    return text.replace("|", "\\|")
