"""Cilium's own load balancer: LB IPAM gives Services addresses, L2 announcements or BGP make them known.

Its pool is where MetalLB's is in the same mode. Cilium knows the label of nodes that load balancers must not use only
by the selectors of these objects: such nodes announce nothing. Before 1.16, its BGP control plane has other objects.
"""

from typing import Any

import yaml

from ci import network, router
from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.lane_file import Lane
from ci.places import CONTEXT
from ci.step import Journal
from esipp.judging.topology import EXCLUDED, MARKS

NAME = "esipp"
BALANCING = {"matchExpressions": [{"key": MARKS[EXCLUDED], "operator": "DoesNotExist"}]}
SPEAKERS = f"!{MARKS[EXCLUDED]}"
"""The same nodes, as kubectl selects them."""
EVERYTHING = {"matchExpressions": [{"key": "esipp.dev/none", "operator": "DoesNotExist"}]}
KEEPALIVE_SECONDS, RETRY_SECONDS = router.HOLD_SECONDS // 3, 1


def install(there: ClusterAccess, lane: Lane, journal: Journal, peer: str = "") -> None:
    """Give Cilium its pool, and say how it is announced.

    Args:
        there: the cluster, with Cilium installed.
        lane: its values of the chart enable L2 announcements or the BGP control plane.
        journal: for the step.
        peer: the router that it announces its addresses to by BGP; without one it answers for them itself (L2).
    """
    hint = f"ci/enter kubectl --context {CONTEXT} describe ciliumloadbalancerippools"
    with journal.step(f"set up Cilium's load balancer, {'BGP' if peer else 'L2'} mode", hint=hint) as step:
        ranges = [router.POOL] if peer else network.cluster_pools(there)
        path = step.log.with_suffix(".yaml")
        path.write_text(yaml.safe_dump_all(objects(lane.cilium_version, ranges, peer)))
        kubectl(there, step, "apply", "--server-side", "--filename", path)
        step.note = ", ".join(ranges)


def objects(version: str, ranges: list[str], peer: str = "") -> list[dict[str, Any]]:
    """Describe the pool and how it is announced, in the API of a version of Cilium."""
    api = "v2" if tuple(map(int, version.removeprefix("v").split(".")[:2])) >= (1, 18) else "v2alpha1"

    def made(kind: str, spec: dict[str, Any], api: str = api) -> dict[str, Any]:
        metadata = {"name": NAME, "labels": {"app": NAME}}
        return {"apiVersion": f"cilium.io/{api}", "kind": kind, "metadata": metadata, "spec": spec}

    blocks = [dict(zip(("start", "stop"), each.split("-"), strict=True)) for each in ranges]
    pool = made("CiliumLoadBalancerIPPool", {"blocks": blocks})
    if not peer:
        policy = {"loadBalancerIPs": True, "nodeSelector": BALANCING, "interfaces": [f"^{network.INTERFACE}$"]}
        return [pool, made("CiliumL2AnnouncementPolicy", policy, "v2alpha1")]
    timers = {"holdTimeSeconds": router.HOLD_SECONDS, "keepAliveTimeSeconds": KEEPALIVE_SECONDS}
    timers["connectRetryTimeSeconds"] = RETRY_SECONDS
    family = {"afi": "ipv4", "safi": "unicast", "advertisements": {"matchLabels": {"app": NAME}}}
    neighbour = {"name": "router", "peerASN": router.AS, "peerAddress": peer, "peerConfigRef": {"name": NAME}}
    instance = {"name": NAME, "localASN": router.AS, "peers": [neighbour]}
    service = {"advertisementType": "Service", "service": {"addresses": ["LoadBalancerIP"]}, "selector": EVERYTHING}
    return [
        pool,
        made("CiliumBGPClusterConfig", {"nodeSelector": BALANCING, "bgpInstances": [instance]}),
        made("CiliumBGPPeerConfig", {"timers": timers, "families": [family]}),
        made("CiliumBGPAdvertisement", {"advertisements": [service]}),
    ]
