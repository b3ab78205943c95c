"""Rights at the API server, as data: verbs on resources.

A run creates its own namespace, so it needs the rights for that namespace in every namespace.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Right:
    """A verb on a resource or subresource (``pods/exec``), in every namespace or one, on every object or one."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        if self.name:
            return f"{self.verb} {self.resource} {self.namespace}/{self.name}".replace(" /", " ")
        return f"{self.verb} {self.resource}" + (f" in {self.namespace}" if self.namespace else "")


def rights(verbs: str, resource: str, group: str = "", namespace: str = "", name: str = "") -> tuple[Right, ...]:
    """Return a right for each of these verbs, which blanks separate."""
    return tuple(Right(verb, resource, group, namespace, name) for verb in verbs.split())


DISCOVERY = "discovery.k8s.io"
GATES = rights("patch", "pods/status")
"""To set the readiness gates of our pods."""
SLICES = rights("list watch", "endpointslices", DISCOVERY)
