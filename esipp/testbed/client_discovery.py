"""Client address discovery: the addresses that nodes see for outside clients, by means of the control listeners."""

from collections.abc import Callable, Collection, Mapping, Sequence

from esipp.checks.check import Feature
from esipp.checks.model import Family, Protocol, Role
from esipp.judging.client_addresses import DiscoveredAddress, Owners, addresses, features
from esipp.judging.topology import Node
from esipp.ledger.run import Run
from esipp.probing.vantages import Listeners, Outside
from esipp.testbed.testbed import Testbed

Learn = Callable[[Testbed], Mapping[str, Sequence[str]]]


def learner(run: Run, outside: Outside, names: Collection[str], into: dict[str, Feature]) -> Learn | None:
    """The discovery function for the testbed; None if all outside clients are beside the nodes.

    Args:
        run: the run, which records the results.
        outside: the outside clients.
        names: their names.
        into: features, updated for clients whose address cannot be verified.
    """
    if not outside.elsewhere(names):
        return None

    def learn(testbed: Testbed) -> Mapping[str, Sequence[str]]:
        listeners = reference_listeners(testbed.nodes, testbed.roles, testbed.listeners)
        found = outside.learn(names, listeners, Owners(testbed.nodes, testbed.pods, testbed.vips).of)
        tell(run, found, into)
        return {**testbed.outside, **addresses(found)}

    return learn


def tell(run: Run, found: Sequence[DiscoveredAddress], into: dict[str, Feature]) -> None:
    """Record the addresses of outside clients, and the features that are missing."""
    for each in found:
        name = f"vantage.{each.client}.{each.family.value.lower()}"
        run.fact(name, f"{each.finding.value}: {each.seen}" if each.seen else each.finding.value, each.said)
        run.say(f"{each.said}.")
    for name, feature in features(found).items():
        if name not in into or into[name].present:
            into[name] = feature
            run.feature(name, feature)


def reference_listeners(
    nodes: Mapping[str, Node], roles: Mapping[Role, str], ports: Mapping[str, Mapping[Protocol, int]]
) -> dict[Family, Listeners]:
    """Addresses and TCP ports of the control listeners, by family and node; nodes with a role come first."""
    playing = [name for name in dict.fromkeys(roles.values()) if name in ports]
    found: dict[Family, dict[str, tuple[str, int]]] = {
        family: {} for family in Family if any(family in node.internal for node in nodes.values())
    }
    for name in [*playing, *(name for name in ports if name not in playing)]:
        port = ports[name].get(Protocol.TCP)
        for family, address in nodes[name].internal.items():
            if port:
                found[family][name] = (address, port)
    return dict(found)
