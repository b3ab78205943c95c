"""Azure's view: the health probe status of a standard load balancer, as the portal shows it.

From the VIP to the frontend IP configuration, its rules and their probes; then the metric ``DipAvailability`` (*Health
Probe Status*) of Azure Monitor, split by backend address: the share of probes that passed in a minute, in per cent. So
it is a minute or more behind, and a node that changed within a minute is in between.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from esipp.base.json import Json
from esipp.judging.health_view import Asked, Member, State, Unavailable, Why, as_address
from esipp.loadbalancers.views.cli import Tool, as_list, as_object
from esipp.loadbalancers.views.cloud import CloudView

READS = frozenset(
    {("network", "lb", "list"), ("network", "public-ip", "list"), ("monitor", "metrics", "list")}
)  # fmt: skip

TOOL = Tool(
    "az",
    READS,
    login="az login",
    rights="Microsoft.Network/loadBalancers/read, Microsoft.Network/publicIPAddresses/read and "
    "Microsoft.Insights/metrics/read in the nodes' resource group; Monitoring Reader and Reader have them",
    ending=("--output", "json", "--only-show-errors"),
    environment={"AZURE_CORE_DISABLE_CONFIRM_PROMPT": "yes", "AZURE_CORE_NO_COLOR": "yes"},
)

METRIC = "DipAvailability"
MOST_SERIES = 1000
"""The answer has ten series where nothing is said, which hides nodes from the eleventh on."""

BACK = "10m"


class Where(NamedTuple):
    """A load balancer's resource id and name, our frontend addresses, and what its rules and probes are, in words."""

    resource: str
    name: str
    addresses: tuple[str, ...]
    probes: tuple[str, ...]


class AzureView(CloudView[tuple[Where, ...]]):
    """What Azure's load balancers say."""

    provider = "azure"
    tool = TOOL
    interval = 60.0  # the metric has one figure a minute
    lag = 180.0  # ours: a figure is of a minute that is over, and has to be gathered

    def find(self, service: Asked) -> tuple[Where, ...]:
        """The load balancers of the nodes' resource group that have the Service's addresses."""
        subscription, group = self._scope()
        scope = ("--subscription", subscription) if subscription else ()
        within = ("--resource-group", group) if group else ()
        answer = as_list(self.cli.ask("network", "lb", "list", *scope, *within), "az network lb list")
        balancers = [_Low(each) for each in answer]
        public = self._public(balancers, scope)
        found = []
        for each in balancers:
            fronts: dict[str, str] = {}
            for front in map(_Low, each["frontendIPConfigurations"] or []):
                address = _address(front, public)
                if address and service.has(address):
                    fronts[front["id"].lower()] = address
            if fronts:
                found.append(Where(each["id"], each["name"], tuple(sorted(fronts.values())), _probes(each, fronts)))
        if not found:
            raise self.missing(service, f"in the resource group {group}" if group else "in the subscription")
        return tuple(found)

    def look(self, found: tuple[Where, ...], service: Asked) -> tuple[tuple[Member, ...], tuple[str, ...]]:
        """The last figure of each backend address, of the rules of the Service's ports."""
        members: list[Member] = []
        notes: list[str] = []
        for where in found:
            notes += where.probes
            for address in where.addresses:
                answer = self.cli.ask(
                    "monitor", "metrics", "list", "--resource", where.resource, "--metric", METRIC,
                    "--interval", "PT1M", "--aggregation", "Average", "--offset", BACK, "--top", str(MOST_SERIES),
                    "--filter", f"FrontendIPAddress eq '{address}' and FrontendPort eq '*' and BackendIPAddress eq '*'",
                )  # fmt: skip
                series = _series(as_object(answer, "az monitor metrics list"))
                members += [each for one in series if (each := self._member(one, service))]
                if len(series) >= MOST_SERIES:
                    notes.append(f"the answer has only the first {MOST_SERIES} series")
        return tuple(members), tuple(notes)

    def name(self, found: tuple[Where, ...]) -> str:
        """Their names: ``kubernetes``, ``kubernetes-internal``."""
        return ", ".join(each.name for each in found)

    def _scope(self) -> tuple[str, str]:
        """Subscription and resource group of the nodes: ``azure:///subscriptions/S/resourceGroups/G/providers/…``."""
        for node in self.places.nodes:
            parts = node.provider_id.partition("://")[2].strip("/").split("/")
            if len(parts) > 3 and parts[0].lower() == "subscriptions" and parts[2].lower() == "resourcegroups":
                return parts[1], parts[3]
        return "", ""

    def _public(self, balancers: Iterable["_Low"], scope: tuple[str, ...]) -> dict[str, str]:
        """Public addresses by the ids of their resources: a frontend has the id only. They may be in other groups."""
        fronts = [front for each in balancers for front in map(_Low, each["frontendIPConfigurations"] or [])]
        ids = {str(_Low(front["publicIPAddress"])["id"]) for front in fronts if front["publicIPAddress"]}
        groups = sorted({each.split("/")[4].lower() for each in ids})
        found = {}
        for group in groups:
            answer = self.cli.ask("network", "public-ip", "list", *scope, "--resource-group", group)
            for each in map(_Low, as_list(answer, "az network public-ip list")):
                found[each["id"].lower()] = each["ipAddress"] or ""
        return found

    def _member(self, series: Json, service: Asked) -> Member | None:
        split = {str(each["name"]["value"]).lower(): str(each["value"]) for each in series.get("metadatavalues") or []}
        port, backend = split.get("frontendport", ""), split.get("backendipaddress", "")
        others = service.ports and port.isdigit() and int(port) not in service.ports
        if others or as_address(backend) is None:
            return None
        figures = [each for each in series.get("data") or [] if each.get("average") is not None]
        node = self.places.find(backend)
        reason = f"frontend port {port}" if port else ""
        if not figures:
            return Member(backend, node, State.UNKNOWN, "no figure", reason)
        last = figures[-1]
        average = float(last["average"])
        state = State.HEALTHY if average >= 100.0 else State.UNHEALTHY if average <= 0.0 else State.UNKNOWN
        at = datetime.fromisoformat(last["timeStamp"]).timestamp()
        return Member(backend, node, state, f"{METRIC} {average:g} %", reason, at)


class _Low:
    """An object whose keys have no case: older ``az`` write ``frontendIpConfigurations``."""

    def __init__(self, document: Json) -> None:
        self._document = {key.lower(): value for key, value in document.items()}

    def __getitem__(self, key: str) -> Any:
        return self._document.get(key.lower())


def _address(front: _Low, public: dict[str, str]) -> str | None:
    own = front["privateIPAddress"]
    if own:
        return str(own)
    resource = front["publicIPAddress"]
    return public.get(str(_Low(resource)["id"]).lower()) if resource else None


def _probes(balancer: _Low, fronts: dict[str, str]) -> tuple[str, ...]:
    """What is asked of the nodes for our frontends, in words."""
    probes = {each["id"].lower(): each for each in map(_Low, balancer["probes"] or [])}
    said = []
    for rule in map(_Low, balancer["loadBalancingRules"] or []):
        front = rule["frontendIPConfiguration"]
        if not front or str(_Low(front)["id"]).lower() not in fronts:
            continue
        probe = probes.get(str(_Low(rule["probe"])["id"]).lower()) if rule["probe"] else None
        if probe is None:
            said.append(f"rule {rule['name']} has no probe")
            continue
        path = probe["requestPath"] or ""
        often = f"every {probe['intervalInSeconds']} s, {probe['probeThreshold'] or probe['numberOfProbes']} in a row"
        said.append(f"rule {rule['name']}: probe {probe['protocol']} {probe['port']}{path} {often}")
    return tuple(said)


def _series(answer: Json) -> list[Json]:
    """All series of the metric.

    Raises:
        Unavailable: Azure says beside it that it could not be had.
    """
    found = []
    for metric in as_list(answer.get("value"), "az monitor metrics list"):
        code = metric.get("errorCode")
        if code not in (None, "", "Success"):
            why = Why.THROTTLED if "throttl" in str(code).lower() else Why.FAILED
            raise Unavailable(why, f"Azure Monitor says {code}: {metric.get('errorMessage') or ''}".rstrip(": ") + ".")
        found += as_list(metric.get("timeseries") or [], METRIC)
    return found
