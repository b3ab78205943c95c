"""One way to break a cluster, and the rows that must notice it: the form of all of them but those of source_ip."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from esipp.rows import Row
from tests.broken.nodes import Nodes, Placed


@dataclass(frozen=True)
class RowBreak:
    """One way to break a cluster.

    Args:
        name: for people and for ``ci/test --broken NAME``.
        suite: whose rows are asked.
        apply: breaks the nodes for as long as its context lasts.
        rows: parts of the ids of those rows that are asked.
        notices: whether a row must fail.
        opens: whether a row cannot be decided then, because the row beside it, or its control, fails.
        at_once: it must be in place before anything is observed; else it only comes while something is done.
        by_hand: it takes long, or is much like another: only ``ci/test --broken all`` and its name run it.
    """

    name: str
    suite: str
    apply: Callable[[Nodes], AbstractContextManager[Placed]]
    rows: tuple[str, ...]
    notices: Callable[[Row], bool]
    opens: Callable[[Row], bool] = lambda row: False
    at_once: bool = True
    by_hand: bool = True
