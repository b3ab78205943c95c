"""Checks of nodes: which can run pods, which roles they have, whether the image is present. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from esipp.app.doctor.model import DoctorCheck, ok, warn
from esipp.base.customisation import Customisation
from esipp.base.json import Json
from esipp.base.plural import counted
from esipp.checks.model import Role
from esipp.judging.topology import Node, read_node
from esipp.testbed.images import at_registry, registry_of
from esipp.testbed.sampling import NO_SAMPLE, Sample

MOST_IMAGES = 50
"""Number of images that a kubelet reports, the largest ones (``nodeStatusMaxImages`` in KubeletConfiguration)."""

NOT_PULLED = "localhost"
"""The registry of images that cannot be pulled and must be loaded onto the nodes."""


def why_not(item: Json, customisation: Customisation) -> str:
    """Why the scheduler would place no pod of esipp on a node; empty if it would."""
    node = read_node(item, customisation)
    spec = item.get("spec") or {}
    system = ((item.get("status") or {}).get("nodeInfo") or {}).get("operatingSystem", "linux")
    if not node.chosen:
        return "not chosen by --node-selector"
    if system != "linux":
        return f"runs {system}"
    if not node.usable:
        return "is not Ready"
    if spec.get("unschedulable"):
        return "is cordoned"
    taints = [str(each.get("key")) for each in spec.get("taints") or () if customisation.repelled([each])]
    return f"has the taint {', '.join(taints)}" if taints else ""


def architectures(raw: Iterable[Json]) -> list[str]:
    """The CPU architectures of the nodes, each once."""
    reported = (((item.get("status") or {}).get("nodeInfo") or {}).get("architecture") for item in raw)
    return sorted({str(each) for each in reported if each})


def first(nodes: Iterable[Node]) -> str:
    """The first node that can run pods, or any node if none can."""
    return min(nodes, key=lambda node: (not (node.schedulable and node.chosen), node.name)).name


def of_nodes(
    raw: Sequence[Json], roles: Mapping[Role, str], customisation: Customisation, chosen: Sample = NO_SAMPLE
) -> DoctorCheck:
    """How many nodes can run pods, their roles, why others cannot, and how many would run an agent."""
    reasons = {item["metadata"]["name"]: why_not(item, customisation) for item in raw}
    takers = [name for name, why in reasons.items() if not why]
    kinds = architectures(raw)
    parts = ", ".join(f"{role.value} {name}" for role, name in roles.items())
    others = Counter(why for why in reasons.values() if why)
    said = f"{len(takers)} of {len(raw)} can run pods ({', '.join(kinds) or 'architecture unknown'})"
    said += f": {parts}" if parts else ""
    said += "".join(f"; {count} {why}" for why, count in others.items())
    said += f"; {len(chosen.nodes)} of {chosen.fit} would run an agent, {chosen.decided}" if chosen.partial else ""
    if len(kinds) > 1:
        return warn("nodes", said, f"the image must be an index with {' and '.join(kinds)}.")
    if len(takers) < 3:
        return warn(
            "nodes",
            said,
            "checks that need a third node are unsupported: add one, or tolerate its taint (--toleration).",
        )
    return ok("nodes", said)


def names_of(reference: str) -> set[str]:
    """The names by which a kubelet may list an image: also with Docker Hub's host and the default tag."""
    found = {reference}
    last = reference.rpartition("/")[2]
    if ":" not in last and "@" not in reference:
        found.add(f"{reference}:latest")
    hub = registry_of(reference)
    found |= {at_registry(each, hub) for each in list(found)}
    return found


def of_image(reference: str, raw: Sequence[Json], nodes: Mapping[str, Node], secret: str) -> DoctorCheck:
    """Whether the nodes that may run pods of esipp report the image.

    Args:
        reference: the image.
        raw: nodes as the API server lists them.
        nodes: the same nodes, parsed.
        secret: description of the pull secret.
    """
    wanted = names_of(reference)
    lacking, cut = [], False
    ours = [item for item in raw if (node := nodes[item["metadata"]["name"]]).usable and node.chosen]
    for item in ours:
        listed = (item.get("status") or {}).get("images") or []
        if not any(wanted & set(each.get("names") or ()) for each in listed):
            lacking.append(item["metadata"]["name"])
            cut = cut or len(listed) >= MOST_IMAGES
    if not lacking:
        return ok("image", f"{reference} is on all {len(ours)} nodes that may run pods")
    some = f"{', '.join(lacking[:3])}{' ...' if len(lacking) > 3 else ''}"
    said = f"{reference} is not reported by {len(lacking)} of {counted(len(ours), 'node')} ({some})"
    said += f"; nodes report only their {MOST_IMAGES} largest images" if cut else ""
    if registry_of(reference).partition(":")[0] == NOT_PULLED:
        hint = (
            "nodes cannot pull from localhost: load the image onto the nodes ('esipp images' explains how), or use "
            "--image-registry."
        )
        return warn("image", said, hint)
    return warn(
        "image",
        f"{said}: they will pull it from {registry_of(reference)} ({secret})",
        "check that they can reach that registry.",
    )
