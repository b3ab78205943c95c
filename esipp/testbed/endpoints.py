"""The run's own packets, by what the testbed has: which are captured, and who answers at which address and port."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import product

from esipp.checks.model import BACKENDS, Backends
from esipp.packets.capture import End, Scope
from esipp.packets.trace import PROTOCOLS
from esipp.testbed.manifests import Numbers
from esipp.testbed.testbed import Testbed

Pods = Mapping[Backends, AbstractSet[str]]
"""The names of the pods that answer, by their kind."""


def scope_of(testbed: Testbed, pods: Pods = BACKENDS) -> Scope:
    """The run's own packets: its nodePorts and listeners at any address, its other ports at their addresses."""
    ports: set[tuple[str, int]] = set()
    endpoints: set[tuple[str, str, int]] = set()
    for name, service in testbed.services.items():
        spec = service["spec"]
        addresses = {*(spec.get("clusterIPs") or []), *testbed.vips.get(name, {}).values()} - {"None"}
        for port in spec["ports"]:
            if port.get("nodePort"):
                ports.add((port["protocol"], port["nodePort"]))
            if spec.get("externalIPs"):
                ports.add((port["protocol"], port["port"]))
            endpoints |= {(port["protocol"], address, port["port"]) for address in addresses}
    for listener in testbed.listeners.values():
        ports |= {(protocol.value, port) for protocol, port in listener.items()}
    for (address, number), name, _ in _backends(testbed, pods):
        endpoints.add((PROTOCOLS[name].value, address, number))
    return Scope(ports, endpoints, payloads=True)


def endpoints_of(testbed: Testbed, pods: Pods = BACKENDS) -> dict[End, str]:
    """The backends and control listeners by address and port, with their nodes."""
    found = {end: node for end, _, node in _backends(testbed, pods)}
    for node, listeners in testbed.listeners.items():  # a control listener is its own backend
        for address in testbed.nodes[node].internal.values():
            found |= {(address, port): node for port in listeners.values()}
    return found


def _backends(testbed: Testbed, pods: Pods) -> Iterator[tuple[End, str, str]]:
    """Each address and port of a backend, with the listener there and the node."""
    for kind, names in pods.items():
        ports = Numbers.of(testbed.run).backend(kind)
        for pod in (testbed.pods[name] for name in names & testbed.pods.keys()):
            for address, (listener, port) in product(pod.addresses.values(), ports.items()):
                yield (address, port), listener, pod.node
