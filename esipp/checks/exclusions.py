"""Checks that a user leaves out one by one, each with a reason (``--exclude ROW=REASON``).

An exclusion is a feature that is missing through our own doing (checks.py), so that all that is done with those is done
with it: nothing is arranged for such a check, its verdict is ``unsupported`` with the reason, a core check that was
left out makes the result PARTIAL, and all of it stands in the ledger.
"""

from collections.abc import Collection, Iterable
from typing import Any

from esipp.base.errors import PreflightError
from esipp.checks.check import EXCLUDED, Feature

Exclusions = tuple[tuple[str, str], ...]
"""A pattern of ids and a reason each; ``*`` stands for anything, as ``esipp run ROW`` finds parts of ids."""


def add_exclude(add: Any) -> None:
    """``--exclude``, for argparse and pytest alike."""
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="ROW=REASON",
        help="leave out checks by their id, or a part of it: they are unsupported, for that reason; repeatable",
    )


def read_exclusions(words: Iterable[str], ids: Collection[str]) -> Exclusions:
    """The exclusions that ``ROW=REASON`` words say.

    Args:
        words: ROW is the id of a check, or, where none is called so, a part of ids.
        ids: of all checks.

    Raises:
        PreflightError: no check is called so, there is no reason, or one check is named twice.
    """
    found: dict[str, str] = {}
    for word in words:
        check, equals, reason = (part.strip() for part in word.partition("="))
        if not equals or not reason or not check:
            raise PreflightError(
                f"--exclude '{word}' has no reason.", "--exclude ROW=REASON; the reason stands in the report."
            )
        pattern = check if check in ids else f"*{check}*"
        if not any(check in each for each in ids) or "*" in check:
            raise PreflightError(f"--exclude: no check's id is or contains '{check}'.", "'esipp list' prints them all.")
        if pattern in found:
            raise PreflightError(f"--exclude names '{check}' twice.", "one reason is enough.")
        found[pattern] = reason
    return tuple(found.items())


def as_words(exclusions: Exclusions) -> list[str]:
    """The same as words of the command line."""
    return [f"{pattern.strip('*')}={reason}" for pattern, reason in exclusions]


def features_of(exclusions: Exclusions) -> dict[str, Feature]:
    """The exclusions as features that are missing."""
    return {
        f"{EXCLUDED}{pattern}": Feature(False, f"left out by --exclude: {reason}", ours=True)
        for pattern, reason in exclusions
    }
