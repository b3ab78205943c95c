"""What the views of all clouds have in common: find the load balancer once, ask for its targets' health each time."""

import time
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from esipp.judging.health_view import Asked, Member, Places, Unavailable, View, Why
from esipp.loadbalancers.views.cli import Cli, Tool

Found = TypeVar("Found")


class CloudView(ABC, Generic[Found]):
    """A cloud's view, by its own command-line tool.

    ``Found`` is where the cloud reports the health of a Service's load balancer. It is looked up once, and again if it
    is gone.
    """

    provider: ClassVar[str]
    tool: ClassVar[Tool]
    interval: ClassVar[float]
    lag: ClassVar[float]

    def __init__(self, places: Places, cli: Cli | None = None) -> None:
        self.places = places
        self.cli = cli or Cli(self.tool)
        self._known: dict[Asked, Found] = {}

    def ask(self, service: Asked) -> View:
        """What the load balancer of a Service says now.

        Raises:
            Unavailable: it can't be had, and why.
        """
        service.need_address()
        self.places.anew()
        began = time.monotonic()
        try:
            if service not in self._known:
                self._known[service] = self.find(service)
            found = self._known[service]
            members, notes = self.look(found, service)
        except Unavailable as failed:
            if failed.why is Why.NOT_FOUND:
                self._known.pop(service, None)
            raise
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as broken:
            raise Unavailable(
                Why.GARBLED,
                f"The answer of '{self.tool.program}' has an unknown form: {broken!r}.",
                f"try another version of {self.tool.program}, or report a bug in esipp.",
            ) from None
        if not members:
            notes = (*notes, "it has no targets, or does not report any yet")
        return View(self.provider, self.name(found), began, time.monotonic(), members, notes)

    @abstractmethod
    def find(self, service: Asked) -> Found:
        """Where the health of a Service's load balancer is reported.


        Raises:
            Unavailable: it is not found, or can't be asked for.
        """

    @abstractmethod
    def look(self, found: Found, service: Asked) -> tuple[tuple[Member, ...], tuple[str, ...]]:
        """The targets and their health, and notes.

        Raises:
            Unavailable: they can't be had.
        """

    @abstractmethod
    def name(self, found: Found) -> str:
        """The provider's own name of the load balancer."""

    def missing(self, service: Asked, where: str) -> Unavailable:
        """That no load balancer has the Service's address."""
        by = ", ".join((*service.addresses, *service.hostnames))
        return Unavailable(
            Why.NOT_FOUND, f"No load balancer with {by} was found {where}.",
            f"set {self.tool.program} to the cluster's own account, project or subscription.",
        )  # fmt: skip
