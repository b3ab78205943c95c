"""The reference load balancer's view, in the form that all have (images/loadbalancer/, ``GET /view``)."""

import time

from esipp.base.errors import HarnessError
from esipp.judging.health_view import Asked, Member, Places, State, Unavailable, View, Why
from esipp.loadbalancers.reference import Reference


class ReferenceView:
    """What it reports when it is asked. It reports its decisions as it takes them (endpoint_change/reported_state.py).

    For its proxies HAProxy reports its servers' status, by ``show stat`` in the container.
    """

    provider = "reference"
    interval = 0.2
    lag = 0.0

    def __init__(self, places: Places, reference: Reference) -> None:
        self.places = places
        self._reference = reference

    def ask(self, service: Asked) -> View:
        """The nodes of a Service.

        Raises:
            Unavailable: it does not answer, or does not know the Service.
        """
        began = time.monotonic()
        try:
            answer = self._reference.view()
        except HarnessError as silent:
            raise Unavailable(Why.FAILED, silent.sentence, silent.hint) from None
        own = (each for each in answer["services"] if f"{each['namespace']}/{each['name']}" == service.name)
        found = next(own, None)
        if found is None:
            raise Unavailable(
                Why.NOT_FOUND,
                f"The reference load balancer does not serve {service.name}.",
                "check spec.loadBalancerClass of the Service.",
            )
        members = []
        for each in found["nodes"]:
            last = each.get("last") or {}
            status = last.get("status")
            reason = f"HTTP {status}" if status else str(last.get("error") or "not checked yet")
            state = State.HEALTHY if each["healthy"] else State.UNHEALTHY
            place = self.places.find(each["node"])
            members.append(Member(f"{each['node']} {each['family']}", place, state, state.value, reason))
        return View(self.provider, self._reference.container, began, time.monotonic(), tuple(members))
