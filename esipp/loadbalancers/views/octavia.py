"""OpenStack's view: the operating status of an Octavia load balancer's members.

The VIP, or the floating IP in front of it, leads to the load balancer and its status tree. Load balancers may be
shared, so members are identified by the Service's node ports. By default the cloud controller creates pools without a
health monitor: their members are ``NO_MONITOR``, and their state is unknown. The shapes are those of
python-octaviaclient and the Octavia API v2 (``/v2/lbaas/loadbalancers/{id}/status``).
"""

from typing import Any, NamedTuple

from esipp.base.json import Json
from esipp.judging.health_view import Asked, Member, State
from esipp.loadbalancers.views.cli import Tool, as_list, as_object
from esipp.loadbalancers.views.cloud import CloudView

READS = frozenset(
    {
        ("loadbalancer", "list"),
        ("loadbalancer", "show"),
        ("loadbalancer", "status", "show"),
        ("floating", "ip", "list"),
    }
)

TOOL = Tool(
    "openstack",
    READS,
    login="source your openrc file, or set OS_CLOUD",
    rights="Octavia's role load-balancer_observer (or reader): get_all, get_one and get_status of load balancers",
    ending=("-f", "json"),
)

# by a member's operating_status
STATES = {"ONLINE": State.HEALTHY, "ERROR": State.UNHEALTHY, "OFFLINE": State.UNHEALTHY, "DRAINING": State.UNHEALTHY}

NO_MONITOR = "the pool {pool} has no health monitor: it never excludes a node because of its health"


class Where(NamedTuple):
    """A load balancer's id, name and provider (``amphora``, ``ovn``)."""

    identity: str
    name: str
    provider: str


class OctaviaView(CloudView[tuple[Where, ...]]):
    """The view of Octavia."""

    provider = "openstack"
    tool = TOOL
    interval = 10.0  # amphorae report every ten seconds (octavia.conf, health_manager.heartbeat_interval)
    lag = 20.0

    def find(self, service: Asked) -> tuple[Where, ...]:
        """The load balancers with the Service's addresses, or with those behind its floating IPs."""
        balancers = as_list(self.cli.ask("loadbalancer", "list"), "loadbalancer list")
        found = [each for each in balancers if service.has(each["vip_address"])]
        for address in service.addresses if not found else ():
            answer = self.cli.ask("floating", "ip", "list", "--floating-ip-address", address)
            for floating in as_list(answer, "floating ip list"):
                fixed = Asked("", (str(floating.get("Fixed IP Address") or ""),))
                behind = [each for each in balancers if fixed.has(each["vip_address"])]
                found += behind if len(behind) < 2 else self._at_port(behind, floating.get("Port"))
        if not found:
            raise self.missing(service, "in the project")
        where = (Where(each["id"], each["name"], each.get("provider") or "") for each in found)
        return tuple(dict.fromkeys(where))

    def _at_port(self, balancers: list[Json], port: Any) -> list[Json]:
        """Of several with the same address in networks of their own: the one behind the floating IP's port."""
        shown = ((each, self.cli.ask("loadbalancer", "show", each["id"])) for each in balancers)
        return [each for each, document in shown if as_object(document, "loadbalancer show").get("vip_port_id") == port]

    def look(self, found: tuple[Where, ...], service: Asked) -> tuple[tuple[Member, ...], tuple[str, ...]]:
        """The members of all pools at the Service's node ports."""
        members, notes = [], []
        for where in found:
            answer = self.cli.ask(
                "loadbalancer", "status", "show", where.identity, bare=True
            )  # prints JSON, knows no -f
            tree = as_object(answer, "loadbalancer status show")["loadbalancer"]
            pools = {pool["id"]: pool for each in tree.get("listeners") or [] for pool in each.get("pools") or []}
            pools |= {pool["id"]: pool for pool in tree.get("pools") or []}
            for pool in pools.values():
                all_of = pool.get("members") or []
                own = [each for each in all_of if each.get("protocol_port") in service.node_ports]
                members += [self._member(each, pool) for each in (own if service.node_ports else all_of)]
                if own and not pool.get("health_monitor"):
                    notes.append(NO_MONITOR.format(pool=pool.get("name") or pool["id"]))
        return tuple(members), tuple(notes)

    def name(self, found: tuple[Where, ...]) -> str:
        """Their names and providers."""
        return ", ".join(f"{each.name} ({each.provider})" if each.provider else each.name for each in found)

    def _member(self, member: Json, pool: Json) -> Member:
        status, address = str(member["operating_status"]), str(member["address"])
        changing = str(member.get("provisioning_status") or "ACTIVE")
        reason = [f"pool {pool.get('name') or pool['id']}", *([changing] if changing != "ACTIVE" else [])]
        target = f"{address}:{member.get('protocol_port')}"
        return Member(target, self.places.find(address), STATES.get(status, State.UNKNOWN), status, ", ".join(reason))
