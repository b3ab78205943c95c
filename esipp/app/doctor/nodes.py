"""Checks of nodes: who can take pods, who plays which part, whether the image is there. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from esipp.app.doctor.model import DoctorCheck, ok, warn
from esipp.base.customisation import Customisation
from esipp.base.plural import counted
from esipp.checks.model import Role
from esipp.judging.topology import Node, read_node
from esipp.testbed.images import at_registry, registry_of
from esipp.testbed.sampling import NO_SAMPLE, Sample

Json = dict[str, Any]

MOST_IMAGES = 50
"""Images that a kubelet tells of (``nodeStatusMaxImages``, KubeletConfiguration): the largest; others may be there."""

NOT_PULLED = "localhost"
"""The registry that nobody has: such an image must be brought to the nodes."""


def why_not(item: Json, customisation: Customisation) -> str:
    """Why a node takes no pods of ours of its own accord; empty where it does."""
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
    """Those of the nodes, each once."""
    told = (((item.get("status") or {}).get("nodeInfo") or {}).get("architecture") for item in raw)
    return sorted({str(each) for each in told if each})


def first(nodes: Iterable[Node]) -> str:
    """One that takes pods, or any, where too few do for every part to be played."""
    return min(nodes, key=lambda node: (not (node.schedulable and node.chosen), node.name)).name


def of_nodes(
    raw: Sequence[Json], roles: Mapping[Role, str], customisation: Customisation, chosen: Sample = NO_SAMPLE
) -> DoctorCheck:
    """How many there are, which part they play, why others play none, and which would carry an agent."""
    reasons = {item["metadata"]["name"]: why_not(item, customisation) for item in raw}
    takers = [name for name, why in reasons.items() if not why]
    kinds = architectures(raw)
    parts = ", ".join(f"{role.value} {name}" for role, name in roles.items())
    others = Counter(why for why in reasons.values() if why)
    said = f"{len(takers)} of {len(raw)} take pods ({', '.join(kinds) or 'architecture unknown'})"
    said += f": {parts}" if parts else ""
    said += "".join(f"; {count} {why}" for why, count in others.items())
    said += f"; {len(chosen.nodes)} of {chosen.fit} would carry an agent, {chosen.decided}" if chosen.partial else ""
    if len(kinds) > 1:
        return warn("nodes", said, f"the image must be there for {' and '.join(kinds)}: an index of both.")
    if len(takers) < 3:
        return warn("nodes", said, "checks that need a third node are unsupported: add one, or name its taint.")
    return ok("nodes", said)


def names_of(reference: str) -> set[str]:
    """The names by which a kubelet may list an image: with Docker Hub's host and tag, where it has none."""
    found = {reference}
    last = reference.rpartition("/")[2]
    if ":" not in last and "@" not in reference:
        found.add(f"{reference}:latest")
    hub = registry_of(reference)
    found |= {at_registry(each, hub) for each in list(found)}
    return found


def of_image(reference: str, raw: Sequence[Json], nodes: Mapping[str, Node], secret: str) -> DoctorCheck:
    """Whether nodes that may carry pods of ours have the image, as far as they tell.

    Args:
        reference: the image.
        raw: nodes as the API server lists them.
        nodes: the same, read.
        secret: what it would be pulled with, in words.
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
        return ok("image", f"{reference} is on all {len(ours)} nodes that may carry pods")
    some = f"{', '.join(lacking[:3])}{' ...' if len(lacking) > 3 else ''}"
    said = f"{reference} is not told of by {len(lacking)} of {counted(len(ours), 'node')} ({some})"
    said += f", which tell of their {MOST_IMAGES} largest images only" if cut else ""
    if registry_of(reference).partition(":")[0] == NOT_PULLED:
        hint = "nobody can pull from localhost: bring it to the nodes ('esipp images' tells how), or --image-registry."
        return warn("image", said, hint)
    return warn(
        "image", f"{said}: they pull it from {registry_of(reference)} ({secret})", "can they reach that registry?"
    )
