"""The prepared run that ``esipp run`` passes to its pytest session, so that nothing is parsed or examined twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # our own tests load the plugin of pytest, too, and need no client of Kubernetes
    from esipp.cluster.client import Cluster
    from esipp.ledger.run import Settings
    from esipp.preflight.preflight import Findings
    from esipp.report.ending import Detail


@dataclass(frozen=True, eq=False)  # a plugin of pytest is compared by identity
class Prepared:
    """A run that is ready to begin; pytest receives it as a plugin.

    ``words`` are the selection on the command line, ``chosen`` the ids of the checks that it leaves. ``findings`` are
    the results of preflight, which took ``seconds``. ``detail`` is how much the run prints at its end.
    """

    words: tuple[str, ...]
    chosen: frozenset[str]
    settings: Settings
    cluster: Cluster
    findings: Findings
    seconds: float
    detail: Detail
