"""What ``esipp run`` hands to the pytest session that it starts: the session parses and examines nothing again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # our own tests load conftest.py, too, and need no client of Kubernetes
    from esipp.cluster.client import Cluster
    from esipp.ledger.run import Settings
    from esipp.preflight.preflight import Findings


@dataclass(frozen=True, eq=False)  # a plugin of pytest is compared by identity
class Prepared:
    """A run that is ready to begin. It is a plugin of the session, which is how pytest passes objects on.

    ``words`` are the suites and checks that the user asked for, as on the command line. ``findings`` are preflight's,
    ``seconds`` how long it took.
    """

    words: tuple[str, ...]
    settings: Settings
    cluster: Cluster
    findings: Findings
    seconds: float
