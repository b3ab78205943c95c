"""HAProxy, for the classes that proxy."""

from __future__ import annotations

from collections.abc import Mapping

from .checks import Target
from .decisions import Decisions
from .objects import Node, Service
from .settings import Settings
from .thresholds import Health


class HAProxy:
    """Not there yet."""

    def __init__(self, settings: Settings, own: Mapping[str, str], decisions: Decisions) -> None:
        self._settings, self._own, self._decisions = settings, own, decisions

    def serve(self, vips: Mapping[Service, Mapping[str, str]], nodes: Mapping[str, Node]) -> None:
        """Serve these Services on these VIPs, by way of these nodes."""

    def health(self, target: Target) -> Health | None:
        """How HAProxy finds a node."""

    def close(self) -> None:
        """End it."""
