"""DaemonSets whose agents get another image on all nodes, with marks by which esipp undoes only its own changes.

The controller of a DaemonSet replaces its pods, whoever changes or undoes it. What was so before is in an annotation
next to the mark, so an undo needs nothing else.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from esipp.base.json import Json
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption.marks import RefusedError, rewrite

CHANGED_BY, CHANGE, BEFORE = "esipp.dev/changed-by", "esipp.dev/change", "esipp.dev/before"
"""Annotations of a changed object: the run's owner, the disruption, and what was so before."""
ROLLED_BY = "esipp.dev/rolled-by"
"""The annotation of the DaemonSet's template that makes its controller replace all pods."""

COLLECTION = "/apis/apps/v1/namespaces/kube-system/daemonsets"
CONFIG = "/api/v1/namespaces/kube-system/configmaps/kube-proxy"
ADD_ON_MANAGER = "addonmanager.kubernetes.io/mode"


@dataclass(frozen=True)
class DaemonSet:
    """Agents of all nodes, which a DaemonSet of kube-system runs.

    Args:
        title: their name, as text.
        agent: what runs in each pod, as text.
        name: the DaemonSet's.
        container: the agent's container in a pod. Containers beside it that have its image get the other one, too.
        option: the option that names another image.
        feature: the feature that there is another image.
        per_node: seconds in which a node replaces its pod, at most.
        skew: how many minor versions two images may be apart; None if any number.
    """

    title: str
    agent: str
    name: str
    container: str
    option: str
    feature: str
    per_node: float = 30.0
    skew: int | None = None

    @property
    def path(self) -> str:
        """The path of the DaemonSet."""
        return f"{COLLECTION}/{self.name}"

    @property
    def named(self) -> str:
        """The DaemonSet, as text."""
        return f"DaemonSet kube-system/{self.name}"


KUBE_PROXY = DaemonSet(
    "kube-proxy", "kube-proxy", "kube-proxy", "kube-proxy", "--kube-proxy-image", "kube-proxy.other-image"
)
CILIUM = DaemonSet(
    "Cilium",
    "Cilium's agent",
    "cilium",
    "cilium-agent",
    "--network-agent-image",
    "network-agent.other-image",
    90.0,
    skew=1,
)
"""An agent compiles its programs when it starts. The only tested path is between consecutive minor releases:
https://docs.cilium.io/en/stable/operations/upgrade/#version-specific-notes"""


@dataclass(frozen=True)
class Rollout:
    """What a disruption changes so that a DaemonSet replaces its pods.

    Args:
        agents: whose pods are replaced.
        field: what is changed, as text.
    """

    agents: DaemonSet
    field: str

    @property
    def undone(self) -> str:
        """The message about the undone change."""
        return f"gave {self.agents.agent} the {self.field} that it had before"


ROLLOUTS = {
    Disruption.PROXY_MODE: Rollout(KUBE_PROXY, "mode"),
    Disruption.PROXY_SLOW: Rollout(KUBE_PROXY, "minSyncPeriod"),
    Disruption.PROXY_UPGRADED: Rollout(KUBE_PROXY, "image"),
    Disruption.NETWORK_AGENT_UPGRADED: Rollout(CILIUM, "image"),
}
"""What each rollout changes, and whose pods it replaces."""

NAMES = {
    CONFIG: "ConfigMap kube-system/kube-proxy",
    **{agents.path: agents.named for agents in (KUBE_PROXY, CILIUM)},
}
"""The objects that are changed."""


@dataclass(frozen=True)
class Left:
    """A mark on an object."""

    what: Disruption
    owner: str


def change_image(cluster: Cluster, what: Disruption, owner: str, image: str) -> None:
    """Change the image of a DaemonSet, whose controller replaces all pods.

    Raises:
        RefusedError: a run changes these agents already. Nothing was done.
        HarnessError: somebody else changes the object all the time; there may be something to undo.
        ApiError, UnreachableError: the API server refuses or does not answer.
    """
    agents = ROLLOUTS[what].agents

    def make(daemon_set: Json) -> Json:
        refuse(daemon_set, agents)
        return rolled(daemon_set, what, owner, image)

    change(cluster, agents.path, make)


def undo(cluster: Cluster, agents: DaemonSet, owner: str) -> bool:
    """Undo the changes of this owner to a DaemonSet, and return whether there were any.

    Raises:
        ApiError, UnreachableError: the API server refuses or does not answer; an object that is gone is no error.
    """

    def make(found: Json) -> Json | None:
        notes = notes_of(found)
        if notes.get(CHANGED_BY) != owner:
            return None
        before = notes.get(BEFORE) or image_of(found, agents)
        return {**UNMARKED, "spec": {"template": _template(found, agents, None, before)}}

    return change_if_there(cluster, agents.path, make)


def left_behind(cluster: Cluster) -> list[Left]:
    """All marks. Objects that do not exist, or that the account may not read, have none of its runs."""
    found = dict[Left, None]()
    for path in NAMES:
        try:
            notes = notes_of(cluster.request("GET", path))
        except ApiError as refused:
            if refused.status not in (403, 404):
                raise
            continue
        if CHANGED_BY in notes and notes.get(CHANGE) in set(ROLLOUTS):
            found[Left(Disruption(notes[CHANGE]), notes[CHANGED_BY])] = None
    return list(found)


def listed(cluster: Cluster, agents: DaemonSet) -> Json | Feature:
    """The DaemonSet, or why it cannot be changed.

    A DaemonSet must replace its pods by itself, and stay as it is changed.
    """
    try:
        items = cluster.list(COLLECTION)
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"cannot read {agents.named} ({broken})")
    found = next((each for each in items if each["metadata"]["name"] == agents.name), None)
    if found is None:
        return Feature(False, f"there is no {agents.named}")
    how = ((found.get("spec") or {}).get("updateStrategy") or {}).get("type", "RollingUpdate")
    if how != "RollingUpdate":
        return Feature(False, f"{agents.named} does not replace its pods by itself ({how})")
    labels = found["metadata"].get("labels") or {}
    if labels.get(ADD_ON_MANAGER) == "Reconcile":
        return Feature(False, f"an add-on manager undoes changes of {agents.named} (label {ADD_ON_MANAGER})")
    return found


def other_image(found: Json | Feature, agents: DaemonSet, image: str) -> dict[str, Feature]:
    """Whether the agents of a DaemonSet, as ``listed`` gives it, can get another image; empty if none is named."""
    return {agents.feature: found if isinstance(found, Feature) else _other_image(found, agents, image)}


def _other_image(daemon_set: Json, agents: DaemonSet, image: str) -> Feature:
    now = image_of(daemon_set, agents)
    if not image:
        return Feature(False, f"no other image is named ({agents.option})", ours=True)
    if image == now:
        return Feature(False, f"{agents.option} names the image that {agents.title} has now, {image}", ours=True)
    (old, new) = (minor_of(each) for each in (now, image))
    if agents.skew is not None and old and new and (old[0] != new[0] or abs(old[1] - new[1]) > agents.skew):
        return Feature(
            False, f"{agents.title} is upgraded by one minor version at a time, not from {now} to {image}", ours=True
        )
    return Feature(True, f"{image} instead of {now}")


def minor_of(image: str) -> tuple[int, ...]:
    """Major and minor version by an image's tag; empty if there are none."""
    return numbers(image.partition("@")[0].rpartition(":")[2])


def numbers(version: str) -> tuple[int, ...]:
    """Major and minor version; empty if there are none."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else ()


def image_of(daemon_set: Json, agents: DaemonSet) -> str:
    """The image of the agents in the DaemonSet's template."""
    return str(_own(_containers(daemon_set, "containers"), agents).get("image") or "")


def at_once(daemon_set: Json) -> str:
    """How many pods the controller replaces at the same time, as text."""
    rolling = ((daemon_set.get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    most = rolling.get("maxUnavailable", 1)
    return "one node after the other" if most in (0, 1) else f"up to {most} nodes at the same time"


def container_of(pod: Json, agents: DaemonSet) -> str:
    """The name of the agent's container in a pod; of its first one if none has that name."""
    return str(_own(pod["spec"].get("containers") or [], agents).get("name", agents.container))


def refuse(item: Json, agents: DaemonSet) -> None:
    """Refuse to change an object that a run has changed.

    Raises:
        RefusedError: it has a mark.
    """
    if by := notes_of(item).get(CHANGED_BY):
        raise RefusedError(
            f"{agents.title} is already changed by run {by}.", "run 'esipp clean', or wait for that run."
        )


def notes_of(item: Json) -> Mapping[str, str]:
    """The annotations of an object."""
    return (item.get("metadata") or {}).get("annotations") or {}


def marked(what: Disruption, owner: str, before: str) -> Json:
    """The merge patch that marks an object."""
    return {"metadata": {"annotations": {CHANGED_BY: owner, CHANGE: what.value, BEFORE: before}}}


UNMARKED: Json = {"metadata": {"annotations": dict.fromkeys((CHANGED_BY, CHANGE, BEFORE))}}
"""The merge patch that removes a mark."""


def rolled(daemon_set: Json, what: Disruption, owner: str, image: str | None = None) -> Json:
    """The merge patch by which all pods are replaced, of another image if one is given."""
    agents = ROLLOUTS[what].agents
    now = image_of(daemon_set, agents)
    return {**marked(what, owner, now), "spec": {"template": _template(daemon_set, agents, owner, image or now)}}


def _template(daemon_set: Json, agents: DaemonSet, by: str | None, image: str) -> Json:
    """The merge patch of the template; a merge replaces whole lists of containers."""
    now, spec = image_of(daemon_set, agents), {}
    for kind in ("initContainers", "containers"):
        if found := _containers(daemon_set, kind):
            spec[kind] = [{**each, "image": image} if each.get("image") == now else each for each in found]
    return {"metadata": {"annotations": {ROLLED_BY: by}}, "spec": spec}


def _containers(daemon_set: Json, kind: str) -> list[Json]:
    template: Json = (daemon_set.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get(kind) or []


def _own(containers: list[Json], agents: DaemonSet) -> Json:
    return next((each for each in containers if each["name"] == agents.container), (containers or [{}])[0])


def change(cluster: Cluster, path: str, make: Callable[[Json], Json | None]) -> bool:
    """Rewrite one of the objects (``rewrite`` of marks)."""
    return rewrite(cluster, path, NAMES[path], make)


def change_if_there(cluster: Cluster, path: str, make: Callable[[Json], Json | None]) -> bool:
    """Rewrite one of the objects, unless it is gone."""
    try:
        return change(cluster, path, make)
    except ApiError as refused:
        if refused.status != 404:
            raise
        return False
