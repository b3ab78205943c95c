"""kube-proxy's mode and minSyncPeriod, in its ConfigMap: changes for all nodes, and their undo.

Its DaemonSet's pods are replaced for it. What was so before is in an annotation next to the mark, so an undo needs
nothing else.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from esipp.base.json import Json
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption import daemon_sets
from esipp.disruption.daemon_sets import (
    BEFORE,
    CHANGE,
    CHANGED_BY,
    CONFIG,
    KUBE_PROXY,
    NAMES,
    UNMARKED,
    minor_of,
    numbers,
)

KEY = "config.conf"

DEFAULT_MODE = "iptables"
OTHERS = {"iptables": "nftables", "nftables": "iptables"}
"""The modes that are changed, each with the one it is changed to. IPVS is deprecated (KEP-5495)."""
NFTABLES_SINCE, NFTABLES_LINUX = (1, 31), (5, 13)
"""The first minor version that has the mode nftables without a feature gate, and the oldest Linux that it supports."""

OTHER_MODE, OTHER_PERIOD = "kube-proxy.other-mode", "kube-proxy.other-period"

MIN_SYNC_PERIOD = "minSyncPeriod"
"""In the section of each mode: how long a sync of the rules waits for after the one before."""
MODES = ("iptables", "nftables", "ipvs")
"""The modes that have such a section, of their own name."""


def mode_of(config: Json) -> str:
    """The mode that the ConfigMap names, or the default one; empty if it has no readable configuration."""
    found = _parsed(config)
    return str(found.get("mode") or DEFAULT_MODE) if found else ""


def period_of(config: Json) -> str:
    """The minSyncPeriod of the mode that the ConfigMap names; empty if it names none."""
    return str(_section(config).get(MIN_SYNC_PERIOD) or "")


def change_mode(cluster: Cluster, owner: str, mode: str) -> None:
    """Change the mode in the ConfigMap, and have all pods replaced; raises as ``change_period`` does."""
    _change_config(cluster, owner, Disruption.PROXY_MODE, lambda _: f"mode: {mode}\n")


def change_period(cluster: Cluster, owner: str, period: str) -> None:
    """Change the minSyncPeriod of the mode in the ConfigMap, and have all pods replaced.

    Raises:
        RefusedError: a run changes kube-proxy already. Nothing was done.
        HarnessError: somebody else changes the objects all the time; there may be something to undo.
        ApiError, UnreachableError: the API server refuses or does not answer.
    """

    def section(config: Json) -> str:
        return yaml.safe_dump({mode_of(config): {**_section(config), MIN_SYNC_PERIOD: period}}, sort_keys=False)

    _change_config(cluster, owner, Disruption.PROXY_SLOW, section)


def _change_config(cluster: Cluster, owner: str, what: Disruption, new: Callable[[Json], str]) -> None:
    """Change the part of the configuration that a disruption is about, and have all pods replaced."""
    daemon_sets.refuse(cluster.request("GET", KUBE_PROXY.path), KUBE_PROXY)

    def make(config: Json) -> Json:
        daemon_sets.refuse(config, KUBE_PROXY)
        text = config["data"][KEY]
        found = _part(what, config).search(text)
        return {**daemon_sets.marked(what, owner, found[0] if found else ""), **_with_part(what, config, new(config))}

    daemon_sets.change(cluster, CONFIG, make)
    daemon_sets.change(cluster, KUBE_PROXY.path, lambda found: daemon_sets.rolled(found, what, owner))


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
        return {**UNMARKED, **_with_part(Disruption(notes[CHANGE]), found, notes.get(BEFORE, ""))}

    undone = daemon_sets.change_if_there(cluster, CONFIG, config)
    return daemon_sets.undo(cluster, KUBE_PROXY, owner) or undone


def features(cluster: Cluster, kernels: Mapping[str, str], image: str) -> dict[str, Feature]:
    """Whether kube-proxy can be changed: its mode, its minSyncPeriod, and its image.

    Args:
        cluster: the cluster.
        kernels: the kernel version of each node.
        image: the other image; empty if none is named.
    """
    found = daemon_sets.listed(cluster, KUBE_PROXY)
    return {**_of_config(cluster, found, kernels), **daemon_sets.other_image(found, KUBE_PROXY, image)}


def _of_config(cluster: Cluster, daemon_set: Json | Feature, kernels: Mapping[str, str]) -> dict[str, Feature]:
    """What of the ConfigMap can be changed."""
    names = (OTHER_MODE, OTHER_PERIOD)
    if isinstance(daemon_set, Feature):
        return dict.fromkeys(names, daemon_set)
    try:
        config = cluster.request("GET", CONFIG)
    except (ApiError, UnreachableError) as broken:
        return dict.fromkeys(names, Feature(False, f"cannot read {NAMES[CONFIG]} ({broken})"))
    image = daemon_sets.image_of(daemon_set, KUBE_PROXY)
    return {OTHER_MODE: _other_mode(mode_of(config), image, kernels), OTHER_PERIOD: _other_period(config)}


def _other_period(config: Json) -> Feature:
    mode = mode_of(config)
    said = f"{NAMES[CONFIG]} {f'says {mode}' if mode else 'has no configuration'}"
    if mode not in MODES:
        return Feature(False, said)
    return Feature(True, f"{said}, with minSyncPeriod {period_of(config) or 'unset'}")


def _other_mode(mode: str, image: str, kernels: Mapping[str, str]) -> Feature:
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


def _part(what: Disruption, config: Json) -> re.Pattern[str]:
    """The lines of the configuration that a disruption changes: the mode, or the section of the mode."""
    name = "mode" if what is Disruption.PROXY_MODE else mode_of(config)
    return re.compile(rf"^{re.escape(name)}:.*\n?(?:[ \t]+.*\n?)*", re.MULTILINE)


def _with_part(what: Disruption, config: Json, lines: str) -> Json:
    """The configuration with other such lines; without any if there are none."""
    text, part = config["data"][KEY], _part(what, config)
    if part.search(text):
        return {"data": {KEY: part.sub(lambda _: lines, text, count=1)}}
    return {"data": {KEY: f"{text}{'' if text.endswith(chr(10)) else chr(10)}{lines}"}}


def _section(config: Json) -> Mapping[str, Any]:
    """The section of the mode; empty if there is none."""
    found = (_parsed(config) or {}).get(mode_of(config))
    return found if isinstance(found, Mapping) else {}


def _parsed(config: Json) -> Mapping[str, Any]:
    """The configuration; empty if it cannot be read."""
    try:
        found: Any = yaml.safe_load((config.get("data") or {}).get(KEY) or "")
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, Mapping) else {}
