"""NetworkPolicies that let clients outside pass, or do not know the address of one that they admit.

Where NetworkPolicies have an effect, others do what a broken data plane would: one that is added admits too many, one
that is replaced too few. Both stand for nodes that mistake a client's address for another one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.model import Family
from esipp.scenarios.service_change.subject import At, Claim, ServiceChange, service_of
from esipp.testbed.network_policies import collection_of, manifest
from tests.broken.breakage import CILIUM, Break, Group, RunOptions
from tests.broken.breaks.changes.not_followed import served
from tests.broken.nodes import LONGEST, Live, Nodes, Placed
from tests.broken.policy_changes import QUICK_LOOKS, in_background, set_up_run

EVENT = "network-policy"
RUN = RunOptions(("changes",), (f"changes.{EVENT}.", "changes.replaced."))
EVERYWHERE = {Family.IPV4: "0.0.0.0/0", Family.IPV6: "::/0"}
NOBODY = [{"ipBlock": {"cidr": "203.0.113.0/24"}}]
"""The peers of a NetworkPolicy that admits none of our clients."""


def once_there(
    name: str, act: Callable[[Nodes, Live, Json], object]
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Do something as soon as the event's NetworkPolicy of this name is there; it goes with the run's namespace."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        placed = Placed()

        def work(ended: Event) -> None:
            live = set_up_run(nodes, {service_of(EVENT)}, ended)
            until = time.monotonic() + LONGEST
            while live is not None and not ended.wait(QUICK_LOOKS) and time.monotonic() < until:
                for found in nodes.cluster.list(collection_of(live.namespace)):
                    if found["metadata"]["name"] == f"{service_of(EVENT)}-{name}":
                        act(nodes, live, found)
                        placed.at = time.time()
                        return

        with in_background(work):
            yield placed

    return apply


def admit(nodes: Nodes, live: Live, like: Json, peers: list[Json]) -> None:
    """Add a NetworkPolicy for the same pod, which admits these peers as well."""
    spec = {**like["spec"], "ingress": [{"from": peers}]}
    nodes.cluster.create(collection_of(live.namespace), manifest("broken", live.run, spec))


def admit_outside(nodes: Nodes, live: Live, like: Json) -> None:
    """All addresses but those of pods are admitted."""
    peers = [{"ipBlock": {"cidr": EVERYWHERE[family], "except": [cidr]}} for family, cidr in nodes.pod_cidrs.items()]
    admit(nodes, live, like, peers)


def admit_nobody(nodes: Nodes, live: Live, policy: Json) -> None:
    """A NetworkPolicy admits none of our clients any more."""
    path = f"{collection_of(live.namespace)}/{policy['metadata']['name']}"
    nodes.cluster.patch(path, {"spec": {"ingress": [{"from": NOBODY}]}}, "merge-patch")


def gone_at_the_node(check: Check) -> bool:
    """The checks that the nodePort does not answer a client that no NetworkPolicy admits."""
    if not is_about(check, ServiceChange):
        return False
    subject = check.subject
    return (subject.event.name, subject.at, subject.claim) == (EVENT, At.ENDPOINT_NODE, Claim.GONE)


BREAKS = (
    Break(
        "network-policy-passed-by-from-outside",
        Group.CHANGES,
        "what comes to a nodePort from outside the cluster passes a NetworkPolicy that does not admit it",
        RUN,
        once_there("others", admit_outside),
        gone_at_the_node,
        names="does not admit",
        at_once=False,
        scoped=True,
        data_planes=(CILIUM,),
    ),
    Break(
        "client-outside-shut-out-by-a-network-policy-that-admits-it",
        Group.CHANGES,
        "a NetworkPolicy that admits the client outside does not know its address at the nodePort",
        RUN,
        once_there("client", admit_nobody),
        served(EVENT, At.ENDPOINT_NODE),
        names="is shut out",
        at_once=False,
        scoped=True,
        data_planes=(CILIUM,),
    ),
    Break(
        "client-pods-shut-out-by-a-network-policy-that-admits-them",
        Group.CHANGES,
        "a NetworkPolicy that admits client pods does not know their addresses at the ClusterIP",
        RUN,
        once_there("pods", admit_nobody),
        served(EVENT, At.CLUSTER_IP, At.OWN_CLUSTER_IP),
        names="is shut out",
        at_once=False,
        scoped=True,
        data_planes=(CILIUM,),
    ),
)
