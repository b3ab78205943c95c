"""Nodes treat trafficDistribution as a requirement: they serve nobody if no endpoint is close."""

from esipp.base.json import Json
from esipp.scenarios.service_change.subject import At
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.changes.not_followed import dropped_at_node_ports, once, served


def prefers_close(service: Json) -> bool:
    """Whether a Service prefers close endpoints by now."""
    return bool(service["spec"].get("trafficDistribution") == "PreferClose")


BREAKS = tuple(
    Break(
        f"preference-taken-for-a-requirement-under-{policy.lower()}",
        Group.CHANGES,
        f"nodes drop what comes to the nodePort of a {policy} Service once it prefers close endpoints",
        RunOptions(("changes",), (f"changes.{event}.", "changes.taken-over.")),
        once(event, prefers_close, dropped_at_node_ports),
        served(event, At.ENDPOINT_NODE, At.BARE_NODE),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    )
    for event, policy in (("distribution", "Cluster"), ("distribution-local", "Local"))
)
