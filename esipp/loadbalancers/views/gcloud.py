"""Google Cloud's view: the backend health of the passthrough load balancers that GKE and GCE make for Services.

From the VIP to the forwarding rule, from there to the backend service (subsetting, RBS, internal) or the target pool
(legacy). ``get-health`` asks every instance group or NEG of it. The shapes are those of the Compute Engine API v1:
``forwardingRules``, ``backendServices.getHealth``, ``targetPools.getHealth``.
"""

import re
from typing import Any, NamedTuple

from esipp.base.json import Json
from esipp.judging.health_view import Asked, Member, State, Unavailable, Why, as_address
from esipp.loadbalancers.views.cli import Tool, as_list
from esipp.loadbalancers.views.cloud import CloudView

READS = frozenset(
    {
        ("compute", "forwarding-rules", "list"),
        ("compute", "backend-services", "get-health"),
        ("compute", "target-pools", "get-health"),
    }
)

TOOL = Tool(
    "gcloud",
    READS,
    login="gcloud auth login",
    rights="compute.forwardingRules.list, compute.backendServices.get (regional: compute.regionBackendServices.get), "
    "compute.targetPools.get (legacy ones); roles/compute.viewer has them",
    ending=("--format=json", "--quiet"),
    environment={"CLOUDSDK_CORE_DISABLE_PROMPTS": "1"},
)

# HealthStatus.healthState; what drains gets no new connections
STATES = {"HEALTHY": State.HEALTHY, "UNHEALTHY": State.UNHEALTHY, "DRAINING": State.UNHEALTHY}

_INSTANCE = re.compile(r"projects/([^/]+)/zones/([^/]+)/instances/([^/]+)")


class Where(NamedTuple):
    """What is asked for health: ``backend-services`` or ``target-pools``, its name, its region (empty: global)."""

    kind: str
    name: str
    region: str


class GoogleView(CloudView[tuple[Where, ...]]):
    """What Google Cloud's load balancers say."""

    provider = "gce"
    tool = TOOL
    # ours: one read request a group, and gcloud itself takes seconds; the quota is shared by the whole project
    interval = 10.0
    lag = 30.0

    def find(self, service: Asked) -> tuple[Where, ...]:
        """The backend services and target pools behind the forwarding rules with the Service's addresses."""
        rules = as_list(self.cli.ask("compute", "forwarding-rules", "list", *self._project()), "forwarding-rules list")
        ours = [rule for rule in rules if service.has(rule.get("IPAddress"))]
        if not ours:
            raise self.missing(service, "among the forwarding rules")
        found = {where for rule in ours if (where := _behind(rule))}
        if not found:
            raise Unavailable(
                Why.UNSUPPORTED,
                f"The forwarding rule {ours[0]['name']} leads to a proxy, which does not report the health of nodes.",
                "esipp queries only passthrough load balancers.",
            )
        return tuple(sorted(found))

    def look(self, found: tuple[Where, ...], service: Asked) -> tuple[tuple[Member, ...], tuple[str, ...]]:
        """The health of each instance or endpoint."""
        members = []
        for kind, name, region in found:
            scope = f"--region={region}" if region else "--global"
            answer = as_list(
                self.cli.ask("compute", kind, "get-health", name, scope, *self._project()), f"{kind} get-health"
            )
            groups = [each.get("status") or {} for each in answer] if kind == "backend-services" else answer
            statuses = [each for group in groups for each in group.get("healthStatus") or []]
            members += [self._member(each) for each in statuses if _is_ours(each, service, statuses)]
        return tuple(members), ()

    def name(self, found: tuple[Where, ...]) -> str:
        """Their names."""
        return ", ".join(each.name for each in found)

    def _project(self) -> tuple[str, ...]:
        """That of the nodes, ``gce://PROJECT/ZONE/NAME``, whatever the tool is set to."""
        ids = (node.provider_id.partition("gce://")[2] for node in self.places.nodes)
        project = next((each.partition("/")[0] for each in ids if each), "")
        return (f"--project={project}",) if project else ()

    def _member(self, status: Json) -> Member:
        instance = status.get("instance") or ""
        found = _INSTANCE.search(instance)
        named = "/".join(found.groups()) if found else None
        # by instance first: in a target pool the address is the VIP, not the node's
        node = self.places.find(named, status.get("ipAddress"), status.get("ipv6Address"))
        of_ipv6 = status.get("ipv6HealthState") and not status.get("healthState")
        state = str(status.get("ipv6HealthState" if of_ipv6 else "healthState") or "UNKNOWN")
        beside = [f"weight {status['weight']}"] if status.get("weight") else []
        beside += [str(status["weightError"])] if status.get("weightError") else []
        target = instance.rpartition("/")[2] or status.get("ipAddress") or "?"
        return Member(target, node, STATES.get(state, State.UNKNOWN), state, ", ".join(beside))


def _behind(rule: Json) -> Where | None:
    url = str(rule.get("backendService") or rule.get("target") or "")
    found = re.search(r"(?:regions/([^/]+)|global)/(backendServices|targetPools)/([^/]+)$", url)
    if not found:
        return None
    kind = "backend-services" if found[2] == "backendServices" else "target-pools"
    return Where(kind, found[3], found[1] or "")


def _is_ours(status: Json, service: Asked, all_of: list[Any]) -> bool:
    """Whether a status is about our VIP, where an instance has one for each of several forwarding rules."""
    rule = status.get("forwardingRuleIp")
    if rule:
        return service.has(rule)
    vips = any(service.has(each.get("ipAddress")) for each in all_of)
    return not vips or as_address(status.get("ipAddress")) is None or service.has(status.get("ipAddress"))
