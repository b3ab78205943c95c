"""Statistical power of samples: for one check, and for all checks of a run. Pure."""

from collections import Counter
from collections.abc import Iterable

from esipp.base.plural import counted

CONFIDENCE = 0.95
ONE_PERCENT = 0.01
"""The share of wrong connections for which reports state the power of a check."""

LEAST_SHARE, MOST_SHARE = 0.001, 0.99
"""Limits beyond which reports say less or more: a sample makes nothing impossible and nothing certain."""


def most_unseen(samples: int) -> float:
    """Return the largest share of wrong connections that ``samples`` correct ones allow, at 95 % confidence."""
    return float(1 - (1 - CONFIDENCE) ** (1 / samples))


def missed(samples: int, share: float = ONE_PERCENT) -> float:
    """Return the probability that ``samples`` connections include no wrong one, if ``share`` of all are wrong."""
    return float((1 - share) ** samples)


def say_share(share: float) -> str:
    """Return a share as text: ``1.5 %``, ``13 %``, ``less than 0.1 %``."""
    if share < LEAST_SHARE:
        return f"less than {100 * LEAST_SHARE:g} %"
    if share > MOST_SHARE:
        return f"more than {100 * MOST_SHARE:g} %"
    return f"{100 * share:.2g} %"


def say_run(samples: Iterable[int]) -> str:
    """Return what a run can miss, in two sentences; empty if no path held.

    Args:
        samples: the number of connections of each path that held, each from its own source port.
    """
    counts = Counter(each for each in samples if each > 0)
    if not counts:
        return ""
    least, paths = min(counts), counts.total()
    number = f"{counted(least, 'connection')}" if len(counts) == 1 else f"{counted(least, 'connection')} or more"
    chance = missed(least)
    said = f"{paths:,} paths were dialled by {number} each" if paths > 1 else f"1 path was dialled by {number}"
    said += f". A defect that hits 1 % of the connections of one path is missed with a chance of {say_share(chance)}"
    if paths == 1:
        return f"{said}."
    return f"{said}, one that hits two paths with {say_share(chance**2)}, three with {say_share(chance**3)}."
