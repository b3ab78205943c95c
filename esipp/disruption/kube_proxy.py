"""kube-proxy's mode, in its ConfigMap: changes for all nodes, and their undo. Its DaemonSet's pods are replaced for it.

What was so before is in an annotation next to the mark, so an undo needs nothing else.
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from esipp.base.json import Json
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption import daemon_sets
from esipp.disruption.daemon_sets import BEFORE, CHANGED_BY, CONFIG, KUBE_PROXY, NAMES, UNMARKED, minor_of, numbers

KEY = "config.conf"

DEFAULT_MODE = "iptables"
OTHERS = {"iptables": "nftables", "nftables": "iptables"}
"""The modes that are changed, each with the one it is changed to. IPVS is deprecated (KEP-5495)."""
NFTABLES_SINCE, NFTABLES_LINUX = (1, 31), (5, 13)
"""The first minor version that has the mode nftables without a feature gate, and the oldest Linux that it supports."""

OTHER_MODE = "kube-proxy.other-mode"

_MODE = re.compile(r"^mode:.*\n?", re.MULTILINE)


def mode_of(config: Json) -> str:
    """The mode that the ConfigMap names, or the default one; empty if it has no readable configuration."""
    try:
        found: Any = yaml.safe_load((config.get("data") or {}).get(KEY) or "")
    except yaml.YAMLError:
        return ""
    return str(found.get("mode") or DEFAULT_MODE) if isinstance(found, Mapping) and found else ""


def change_mode(cluster: Cluster, owner: str, mode: str) -> None:
    """Change the mode in the ConfigMap, and have all pods replaced.

    Raises:
        RefusedError: a run changes kube-proxy already. Nothing was done.
        HarnessError: somebody else changes the objects all the time; there may be something to undo.
        ApiError, UnreachableError: the API server refuses or does not answer.
    """
    daemon_sets.refuse(cluster.request("GET", KUBE_PROXY.path), KUBE_PROXY)

    def make(config: Json) -> Json:
        daemon_sets.refuse(config, KUBE_PROXY)
        text = config["data"][KEY]
        found = _MODE.search(text)
        return {
            **daemon_sets.marked(Disruption.PROXY_MODE, owner, found[0] if found else ""),
            **_with_mode(text, f"mode: {mode}\n"),
        }

    daemon_sets.change(cluster, CONFIG, make)
    daemon_sets.change(cluster, KUBE_PROXY.path, lambda found: daemon_sets.rolled(found, Disruption.PROXY_MODE, owner))


def undo(cluster: Cluster, owner: str) -> bool:
    """Undo the changes of this owner, and return whether there were any.

    The ConfigMap comes first: the pods that the DaemonSet then makes read it.

    Raises:
        ApiError, UnreachableError: the API server refuses or does not answer; an object that is gone is no error.
    """

    def config(found: Json) -> Json | None:
        notes = daemon_sets.notes_of(found)
        if notes.get(CHANGED_BY) != owner:
            return None
        return {**UNMARKED, **_with_mode(found["data"][KEY], notes.get(BEFORE, ""))}

    undone = daemon_sets.change_if_there(cluster, CONFIG, config)
    return daemon_sets.undo(cluster, KUBE_PROXY, owner) or undone


def features(cluster: Cluster, kernels: Mapping[str, str], image: str) -> dict[str, Feature]:
    """Whether kube-proxy can be changed: its mode, and its image.

    Args:
        cluster: the cluster.
        kernels: the kernel version of each node.
        image: the other image; empty if none is named.
    """
    found = daemon_sets.listed(cluster, KUBE_PROXY)
    if isinstance(found, Feature):
        mode = found
    else:
        mode = _other_mode(cluster, daemon_sets.image_of(found, KUBE_PROXY), kernels)
    return {OTHER_MODE: mode, **daemon_sets.other_image(found, KUBE_PROXY, image)}


def _other_mode(cluster: Cluster, image: str, kernels: Mapping[str, str]) -> Feature:
    try:
        mode = mode_of(cluster.request("GET", CONFIG))
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"cannot read {NAMES[CONFIG]} ({broken})")
    if mode not in OTHERS:
        return Feature(False, f"{NAMES[CONFIG]} {f'says {mode}' if mode else 'has no configuration'}")
    said = f"{NAMES[CONFIG]} says {mode}"
    if OTHERS[mode] == "nftables":
        if (since := minor_of(image)) and since < NFTABLES_SINCE:
            return Feature(False, f"{said}; {image} has no mode nftables without a feature gate")
        old = sorted(node for node, kernel in kernels.items() if numbers(kernel) < NFTABLES_LINUX)
        if old:
            return Feature(
                False, f"{said}; nftables needs Linux 5.13, and {old[0]} has {kernels[old[0]] or 'no version'}"
            )
    return Feature(True, f"{said}; it can be {OTHERS[mode]}")


def _with_mode(text: str, line: str) -> Json:
    """The configuration with another line of the mode; without one if that is empty."""
    if _MODE.search(text):
        return {"data": {KEY: _MODE.sub(lambda _: line, text, count=1)}}
    return {"data": {KEY: f"{text}{'' if text.endswith(chr(10)) else chr(10)}{line}"}}
