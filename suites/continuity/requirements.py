"""What the checks of this suite say, and why."""

from esipp.checks.continuity import CHECKED, NODEPORT, PROXIES, Phase, Way, What
from esipp.checks.timing import FIELD_LIMIT, PROMPT
from suites.references import *

SUITE = "continuity"

MEANWHILE = {
    Phase.QUIET: "While nothing is done",
    Phase.ROLLING_UPDATE: "While a Deployment of pods that serve on for longer than (N+1) x health check period is "
    "updated, a pod at a time",
    Phase.DELETED: "While a pod that serves on for longer than (N+1) x health check period is deleted with grace",
    Phase.FLAPS: "While one of the pods becomes unready and ready again by its probe, three times",
    Phase.FLIPS: "While the policy of the Local services is set to Cluster and back",
    Phase.CORDON: "While the endpoint node is cordoned",
    Phase.DRAIN: "While the endpoint node is drained of pods that serve on for longer than (N+1) x health check period",
    Phase.EXCLUDE: "While the endpoint node has the label that excludes it from external load balancers",
    Phase.KUBE_PROXY: "While kube-proxy is restarted on the endpoint node",
    Phase.SPEAKER: "While the speaker of the cluster's own load balancer is restarted",
    Phase.API_SERVER: "While the API server is away for 30 s",
    Phase.KUBELET: "While the kubelet of the endpoint node is stopped, until its pods are no endpoints any more",
}

PHASE_REFERENCES = {
    Phase.QUIET: (),
    Phase.ROLLING_UPDATE: (E2E_LOAD_BALANCERS, KEP_1669),
    Phase.DELETED: (KEP_1669,),
    Phase.FLAPS: (DESIGN_BLACKHOLE,),
    Phase.FLIPS: (API_ETP,),
    Phase.CORDON: (NODES_PAGE,),
    Phase.DRAIN: (NODES_PAGE, KEP_1669),
    Phase.EXCLUDE: (EXCLUDE_LABEL, KEP_3836),
    Phase.KUBE_PROXY: (E2E_RESTARTS,),
    Phase.SPEAKER: (E2E_RESTARTS,),
    Phase.API_SERVER: (E2E_RESTARTS,),
    Phase.KUBELET: (NODES_PAGE, DESIGN_BLACKHOLE),
}

BALANCERS = {
    "default": "the VIP of the cluster's own load balancer",
    "reference-ecmp": "the VIP of the reference ECMP forwarder",
    "reference-proxy": "the VIP of the reference proxy",
}


def by_way(way: Way) -> str:
    """Where requests go."""
    if way.by == NODEPORT:
        node = "the endpoint node" if way.local else "the bare node"
        return f"the nodePort of a {way.policy.value} service at {node}"
    return f"{BALANCERS[way.by]} for a {way.policy.value} service"


def requirement(phase: Phase, way: Way, what: What) -> str:
    """The check's sentence."""
    meanwhile, through = MEANWHILE[phase], by_way(way)
    if what is What.NO_LOSS:
        return f"{meanwhile}, not a single request through {through} is lost."
    if what is What.GAP:
        return (
            f"{meanwhile}, requests through {through} are missed for (N+1) x health check period at most in a row, "
            "with N and the period that the load balancer tells."
        )
    if what is What.LOSSES and by_bound(phase, way):
        return (
            f"{meanwhile}, requests through {through} are missed for no longer in a row than the bound that --bound or "
            "its profile gives: (N+1) x health check period. Recorded where neither gives one."
        )
    if what is What.LOSSES:
        return f"{meanwhile}, how many requests through {through} are lost or late, and the longest gap."
    if what is What.PROMPT:
        return (
            f"{meanwhile}, every single answer through {through} shows {whose(way)} from {PROMPT:.0f} s after the API "
            "server took the return to Local."
        )
    if what is What.LASTING:
        return (
            f"{meanwhile}, no open connection through {through} breaks, but for those whose own pod was told to end "
            "and has served on for as long as it was to."
        )
    if what is What.TERMINATING:
        return f"{meanwhile}, {through} is answered by the pod that ends while the node's health check says 503."
    if what is What.PLACE:
        at = " of that node" if way.by == NODEPORT and way.local else ""
        flips = ", where the policy is Local," if at and phase is Phase.FLIPS else ""
        return f"{meanwhile}, every answer through {through} is{flips} by a pod{at} that is ready or serves its last."
    if phase is Phase.FLIPS and way.local:
        return (
            f"{meanwhile}, every single answer through {through} shows the source of one of the two policies. Before "
            f"that it shows {whose(way)}, and again once sources are stable, {FIELD_LIMIT:.0f} s later at the latest."
        )
    return f"{meanwhile}, every single answer through {through} shows that the pod saw {whose(way)}."


def by_bound(phase: Phase, way: Way) -> bool:
    """Whether what is lost is held against the load balancer's bound: a restart of its own agent is no matter of it."""
    return way.by not in (NODEPORT, *CHECKED) and phase is not Phase.SPEAKER


def whose(way: Way) -> str:
    """Whose address the pod must see."""
    if not way.local:
        return "a node's address"
    return "the proxy's own address" if way.by in PROXIES else "the client's own address"


def references(phase: Phase, way: Way, what: What) -> tuple[Reference, ...]:
    """Why it is required."""
    about: dict[What, tuple[Reference, ...]] = {
        What.NO_LOSS: (DESIGN_BLACKHOLE,) if way.local else (API_ETP,),
        What.GAP: (DESIGN_BOUND,),
        What.LOSSES: (DESIGN_BOUND,) if by_bound(phase, way) else (DESIGN_BLACKHOLE,),
        What.PROMPT: (API_ETP, DESIGN_BACKWARD),
        What.SOURCE: (
            API_IP_MODE,
            KEP_1860,
        )
        if way.by in PROXIES
        else (API_ETP, _tutorial(way)),
        What.PLACE: (API_ETP, DESIGN_BLACKHOLE),
        What.LASTING: (CONNTRACK,),
        What.TERMINATING: (KEP_1669,),
    }
    return tuple(dict.fromkeys((*about[what], *PHASE_REFERENCES[phase])))


def _tutorial(way: Way) -> Reference:
    return TUTORIAL_NODE_PORT if way.by == NODEPORT else TUTORIAL_LB


__all__ = ["NODEPORT", "PROXIES", "SUITE", "Phase", "Way", "What", "references", "requirement"]
