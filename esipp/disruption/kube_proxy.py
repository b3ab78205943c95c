"""kube-proxy's ConfigMap and DaemonSet: changes for all nodes, with marks by which esipp undoes only its own.

The controller of the DaemonSet replaces one pod after the other, whoever changes or undoes it. What was so before is in
an annotation next to the mark, so an undo needs nothing else.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from esipp.base.json import Json
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption.marks import RefusedError, rewrite

CONFIG = "/api/v1/namespaces/kube-system/configmaps/kube-proxy"
DAEMON_SET = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
NAMES = {CONFIG: "ConfigMap kube-system/kube-proxy", DAEMON_SET: "DaemonSet kube-system/kube-proxy"}
KEY, CONTAINER = "config.conf", "kube-proxy"

CHANGED_BY, CHANGE, BEFORE = "esipp.dev/changed-by", "esipp.dev/change", "esipp.dev/before"
"""Annotations of a changed object: the run's owner, the disruption, and what was so before."""
ROLLED_BY = "esipp.dev/rolled-by"
"""The annotation of the DaemonSet's template that makes its controller replace all pods."""

DEFAULT_MODE = "iptables"
OTHERS = {"iptables": "nftables", "nftables": "iptables"}
"""The modes that are changed, each with the one it is changed to. IPVS is deprecated (KEP-5495)."""
NFTABLES_SINCE, NFTABLES_LINUX = (1, 31), (5, 13)
"""The first minor version that has the mode nftables without a feature gate, and the oldest Linux that it supports."""

OTHER_MODE, OTHER_IMAGE, OTHER_PERIOD = "kube-proxy.other-mode", "kube-proxy.other-image", "kube-proxy.other-period"

MIN_SYNC_PERIOD = "minSyncPeriod"
"""In the section of each mode: how long a sync of the rules waits for after the one before."""
MODES = ("iptables", "nftables", "ipvs")
"""The modes that have such a section, of their own name."""

OTHERS_OF = (OTHER_MODE, OTHER_IMAGE, OTHER_PERIOD)
"""The features about what of kube-proxy can be changed."""

UNDOING = {
    Disruption.PROXY_MODE: "gave kube-proxy the mode that it had before",
    Disruption.PROXY_UPGRADED: "gave kube-proxy the image that it had before",
    Disruption.PROXY_SLOW: "gave kube-proxy the minSyncPeriod that it had before",
}
"""The messages about an undone change."""


@dataclass(frozen=True)
class Left:
    """A mark on kube-proxy's objects."""

    what: Disruption
    owner: str


def mode_of(config: Json) -> str:
    """The mode that the ConfigMap names, or the default one; empty if it has no readable configuration."""
    found = _parsed(config)
    return str(found.get("mode") or DEFAULT_MODE) if found else ""


def image_of(daemon_set: Json) -> str:
    """The image of kube-proxy in the DaemonSet's template."""
    return str(_container(daemon_set).get("image") or "")


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
    _refuse(cluster.request("GET", DAEMON_SET))

    def make(config: Json) -> Json:
        _refuse(config)
        text = config["data"][KEY]
        found = _part(what, config).search(text)
        return {**_marked(what, owner, found[0] if found else ""), **_with_part(what, config, new(config))}

    _rewrite(cluster, CONFIG, make)
    _rewrite(cluster, DAEMON_SET, lambda found: _rolled(found, what, owner, image_of(found)))


def change_image(cluster: Cluster, owner: str, image: str) -> None:
    """Change the image of the DaemonSet, whose controller replaces all pods.

    Raises:
        RefusedError: a run changes kube-proxy already. Nothing was done.
        HarnessError: somebody else changes the objects all the time; there may be something to undo.
        ApiError, UnreachableError: the API server refuses or does not answer.
    """

    def make(daemon_set: Json) -> Json:
        _refuse(daemon_set)
        return _rolled(daemon_set, Disruption.PROXY_UPGRADED, owner, image)

    _rewrite(cluster, DAEMON_SET, make)


def undo(cluster: Cluster, owner: str) -> bool:
    """Undo the changes of this owner, and return whether there were any.

    The ConfigMap comes first: the pods that the DaemonSet then makes read it.

    Raises:
        ApiError, UnreachableError: the API server refuses or does not answer; an object that is gone is no error.
    """

    def config(found: Json) -> Json | None:
        notes = _notes(found)
        if notes.get(CHANGED_BY) != owner:
            return None
        return {**_UNMARKED, **_with_part(Disruption(notes[CHANGE]), found, notes.get(BEFORE, ""))}

    def daemon_set(found: Json) -> Json | None:
        notes = _notes(found)
        if notes.get(CHANGED_BY) != owner:
            return None
        return {**_UNMARKED, "spec": {"template": _template(found, None, notes.get(BEFORE) or image_of(found))}}

    undone = False
    for path, make in ((CONFIG, config), (DAEMON_SET, daemon_set)):
        try:
            undone |= _rewrite(cluster, path, make)
        except ApiError as refused:
            if refused.status != 404:
                raise
    return undone


def left_behind(cluster: Cluster) -> list[Left]:
    """All marks. Objects that do not exist, or that the account may not read, have none of its runs."""
    found = dict[Left, None]()
    for path in NAMES:
        try:
            notes = _notes(cluster.request("GET", path))
        except ApiError as refused:
            if refused.status not in (403, 404):
                raise
            continue
        if CHANGED_BY in notes and notes.get(CHANGE) in set(UNDOING):
            found[Left(Disruption(notes[CHANGE]), notes[CHANGED_BY])] = None
    return list(found)


def features(cluster: Cluster, kernels: Mapping[str, str], image: str) -> dict[str, Feature]:
    """Whether kube-proxy can be changed: its mode, its minSyncPeriod, and its image.

    Args:
        cluster: the cluster.
        kernels: the kernel version of each node.
        image: the other image; empty if none is named.
    """
    try:
        listed = cluster.list(DAEMON_SET.rpartition("/")[0])
    except (ApiError, UnreachableError) as broken:
        return dict.fromkeys(OTHERS_OF, Feature(False, f"cannot read {NAMES[DAEMON_SET]} ({broken})"))
    daemon_set = next((each for each in listed if each["metadata"]["name"] == "kube-proxy"), None)
    why = _kept(daemon_set) if daemon_set else f"there is no {NAMES[DAEMON_SET]}"
    if not daemon_set or why:
        return dict.fromkeys(OTHERS_OF, Feature(False, why))
    found = {OTHER_IMAGE: _other_image(image_of(daemon_set), image)}
    try:
        config = cluster.request("GET", CONFIG)
    except (ApiError, UnreachableError) as broken:
        unread = Feature(False, f"cannot read {NAMES[CONFIG]} ({broken})")
        return found | dict.fromkeys((OTHER_MODE, OTHER_PERIOD), unread)
    return {
        **found,
        OTHER_MODE: _other_mode(mode_of(config), image_of(daemon_set), kernels),
        OTHER_PERIOD: _other_period(config),
    }


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
        if (since := _numbers(image.rpartition(":")[2])) and since < NFTABLES_SINCE:
            return Feature(False, f"{said}; {image} has no mode nftables without a feature gate")
        old = sorted(node for node, kernel in kernels.items() if _numbers(kernel) < NFTABLES_LINUX)
        if old:
            return Feature(
                False, f"{said}; nftables needs Linux 5.13, and {old[0]} has {kernels[old[0]] or 'no version'}"
            )
    return Feature(True, f"{said}; it can be {OTHERS[mode]}")


def _other_image(now: str, image: str) -> Feature:
    if not image:
        return Feature(False, "no other image is named (--kube-proxy-image)", ours=True)
    if image == now:
        return Feature(False, f"--kube-proxy-image names the image that kube-proxy has now, {image}", ours=True)
    return Feature(True, f"{image} instead of {now}")


def _kept(daemon_set: Json) -> str:
    """Why the pods are not replaced, or the DaemonSet would not stay as it is changed; else empty."""
    how = ((daemon_set.get("spec") or {}).get("updateStrategy") or {}).get("type", "RollingUpdate")
    if how != "RollingUpdate":
        return f"{NAMES[DAEMON_SET]} does not replace its pods by itself ({how})"
    labels = daemon_set["metadata"].get("labels") or {}
    if labels.get(ADD_ON_MANAGER) == "Reconcile":
        return f"an add-on manager undoes changes of {NAMES[DAEMON_SET]} (label {ADD_ON_MANAGER})"
    return ""


ADD_ON_MANAGER = "addonmanager.kubernetes.io/mode"


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor version; empty if there are none."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else ()


def _refuse(item: Json) -> None:
    if by := _notes(item).get(CHANGED_BY):
        raise RefusedError(f"kube-proxy is already changed by run {by}.", "run 'esipp clean', or wait for that run.")


def _notes(item: Json) -> Mapping[str, str]:
    return (item.get("metadata") or {}).get("annotations") or {}


def _marked(what: Disruption, owner: str, before: str) -> Json:
    return {"metadata": {"annotations": {CHANGED_BY: owner, CHANGE: what.value, BEFORE: before}}}


_UNMARKED: Json = {"metadata": {"annotations": dict.fromkeys((CHANGED_BY, CHANGE, BEFORE))}}


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


def _rolled(daemon_set: Json, what: Disruption, owner: str, image: str) -> Json:
    marked = _marked(what, owner, image_of(daemon_set))
    return {**marked, "spec": {"template": _template(daemon_set, owner, image)}}


def _template(daemon_set: Json, by: str | None, image: str) -> Json:
    """The merge patch of the template; a merge replaces the whole list of containers."""
    own = _container(daemon_set)
    containers = [{**each, "image": image} if each is own else each for each in _containers(daemon_set)]
    return {"metadata": {"annotations": {ROLLED_BY: by}}, "spec": {"containers": containers}}


def container_of(pod: Json) -> str:
    """The name of kube-proxy's container in a pod; of its first one if none has kube-proxy's name."""
    return str(_own(pod["spec"].get("containers") or [{"name": CONTAINER}])["name"])


def _container(daemon_set: Json) -> Json:
    return _own(_containers(daemon_set))


def _own(containers: list[Json]) -> Json:
    return next((each for each in containers if each["name"] == CONTAINER), containers[0])


def _containers(daemon_set: Json) -> list[Json]:
    template: Json = (daemon_set.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("containers") or [{"name": CONTAINER}]


def _rewrite(cluster: Cluster, path: str, make: Callable[[Json], Json | None]) -> bool:
    return rewrite(cluster, path, NAMES[path], make)
