"""The load balancer in a Service's status: addresses or hostnames, address families, and ipMode."""

from collections.abc import Collection, Mapping

from esipp.base.dns import addresses_of
from esipp.base.json import Json
from esipp.checks.model import Family
from esipp.judging.topology import by_family


def families_of(service: Json) -> list[Family]:
    """The address families of a Service."""
    return [Family(each) for each in service["spec"].get("ipFamilies") or []]


def _ingresses(service: Json) -> list[Json]:
    return service.get("status", {}).get("loadBalancer", {}).get("ingress") or []


def ingress_of(service: Json) -> str:
    """The form of the announcement: the ipMode of an address, ``hostname``, or ``none``."""
    ways = [each.get("ipMode") or "VIP" if each.get("ip") else "hostname" for each in _ingresses(service)]
    return max(ways, key=("VIP", "Proxy", "hostname").index) if ways else "none"


def announced(service: Json) -> list[str]:
    """The addresses of a load balancer; a hostname is resolved on this machine."""
    found: list[str] = []
    for each in _ingresses(service):
        if each.get("ip"):
            found.append(each["ip"])
        elif each.get("hostname"):
            found += addresses_of(each["hostname"])
    return found


def in_order(service: Json, given: Mapping[Family, str]) -> dict[Family, str]:
    """A Service's addresses in the order of its own families; a status may list them in any order."""
    own = [family for family in families_of(service) if family in given]
    return {family: given[family] for family in (*own, *(each for each in given if each not in own))}


def is_announced(service: Json, expected: Collection[Family] | None = None) -> bool:
    """Whether every expected family (by default all) has its address, or a hostname resolves."""
    given = by_family(announced(service))
    named = any(each.get("hostname") and not each.get("ip") for each in _ingresses(service))
    wanted = families_of(service) if expected is None else expected
    return bool(given) if named else all(family in given for family in wanted)


def carried(service: Json) -> str:
    """The protocols of a Service's ports, as text."""
    return " and ".join(sorted(protocols_of(service)))


def protocols_of(service: Json) -> set[str]:
    """The protocols of a Service's ports."""
    return {port.get("protocol", "TCP") for port in service["spec"].get("ports") or ()}
