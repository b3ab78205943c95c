"""What samples can and cannot show, in numbers: of one check, and of all checks of a run. Pure."""

from collections import Counter
from collections.abc import Iterable

from esipp.base.plural import counted

CONFIDENCE = 0.95
ONE_PERCENT = 0.01
"""The share of wrong connections by which a check's power is told."""

LEAST_SHARE, MOST_SHARE = 0.001, 0.99
"""Shares beyond these are told as less or more: nothing that was sampled is impossible, and nothing is certain."""


def most_unseen(samples: int) -> float:
    """The largest share of wrong connections that fits ``samples`` right ones, at 95 % confidence."""
    return float(1 - (1 - CONFIDENCE) ** (1 / samples))


def missed(samples: int, share: float = ONE_PERCENT) -> float:
    """The chance that ``samples`` connections meet no wrong one, where ``share`` of all are wrong at random."""
    return float((1 - share) ** samples)


def each_alpha(tests: int, alpha: float = 1 - CONFIDENCE) -> float:
    """The level of each of ``tests`` statistical tests, by which all of them together have level ``alpha`` (Šidák)."""
    return float(1 - (1 - alpha) ** (1 / max(1, tests)))


def say_share(share: float) -> str:
    """A share as people write it: ``1.5 %``, ``13 %``, ``less than 0.1 %``."""
    if share < LEAST_SHARE:
        return f"less than {100 * LEAST_SHARE:g} %"
    if share > MOST_SHARE:
        return f"more than {100 * MOST_SHARE:g} %"
    return f"{100 * share:.2g} %"


def say_run(samples: Iterable[int]) -> str:
    """What a run can miss, in two sentences; empty where no path held.

    Args:
        samples: of each path that held, how many connections dialled it, each from a source port of its own.
    """
    counts = Counter(each for each in samples if each > 0)
    if not counts:
        return ""
    least, paths = min(counts), counts.total()
    number = f"{counted(least, 'connection')}" if len(counts) == 1 else f"{counted(least, 'connection')} or more"
    chance = missed(least)
    told = f"{paths:,} paths were dialled by {number} each" if paths > 1 else f"1 path was dialled by {number}"
    told += f". A defect that hits 1 % of the connections of one path is missed with a chance of {say_share(chance)}"
    if paths == 1:
        return f"{told}."
    return f"{told}, one that hits two paths with {say_share(chance**2)}, three with {say_share(chance**3)}."
