"""Checks that the user excludes, each with a reason (``--exclude CHECK=REASON``).

An exclusion is a missing feature (check.py), marked as ours. The run sets up nothing for such a check, and its verdict
is ``unsupported`` with the reason. An excluded core check makes the result PARTIAL. The ledger records all of it.
"""

from collections.abc import Collection, Iterable
from typing import Any

from esipp.base.errors import PreflightError, which_check
from esipp.checks.check import EXCLUDED, Feature

Exclusions = tuple[tuple[str, str], ...]
"""Pairs of an id pattern and a reason; ``*`` matches anything, as ``esipp run ROW`` matches parts of ids."""


def add_exclude(add: Any) -> None:
    """Add ``--exclude`` to argparse or pytest."""
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="CHECK=REASON",
        help="exclude checks by id or part of an id; their verdict is unsupported with this reason; repeatable",
    )


def read_exclusions(words: Iterable[str], ids: Collection[str]) -> Exclusions:
    """Return the exclusions in ``CHECK=REASON`` words.

    Args:
        words: ROW is the id of a check or, if there is none, a part of ids.
        ids: the ids of all checks.

    Raises:
        PreflightError: no id matches, there is no reason, or a check is named twice.
    """
    found: dict[str, str] = {}
    for word in words:
        check, equals, reason = (part.strip() for part in word.partition("="))
        if not equals or not reason or not check:
            raise PreflightError(
                f"--exclude '{word}' has no reason.", "use --exclude CHECK=REASON; the report shows the reason."
            )
        pattern = check if check in ids else f"*{check}*"
        if not any(check in each for each in ids) or "*" in check:
            raise PreflightError(f"--exclude: no check matches '{check}'.", which_check(check, ids))
        if pattern in found:
            raise PreflightError(f"--exclude names '{check}' twice.", "give one reason only.")
        found[pattern] = reason
    return tuple(found.items())


def as_words(exclusions: Exclusions) -> list[str]:
    """Return the exclusions as command line words."""
    return [f"{pattern.strip('*')}={reason}" for pattern, reason in exclusions]


def features_of(exclusions: Exclusions) -> dict[str, Feature]:
    """Return the exclusions as missing features."""
    return {
        f"{EXCLUDED}{pattern}": Feature(False, f"excluded by --exclude: {reason}", ours=True)
        for pattern, reason in exclusions
    }
