"""Timeouts of the scenarios: how long each wait may take."""

from dataclasses import dataclass, replace

from esipp.base.waiting import Budget, longer
from esipp.checks.continuity import ONE_NODE_WITHIN
from esipp.checks.stream import CLEANED
from esipp.checks.timing import FIELD_LIMIT

LOOKS = 0.1
"""Seconds between two readings."""


@dataclass(frozen=True)
class Timeouts:
    """How long each wait may take, at most. It ends as soon as what it waits for is there.

    The defaults suit a small cluster on a busy machine. No verdict rests on them: bounds are in checks/timing.py and in
    the profiles of load balancers. ``--timeout-factor`` makes those of ``SLOWER`` longer.
    """

    # ------------------------------------------------------------------------------------------ before each window
    paths_answer: Budget = Budget("every path to answer", 30.0, need=3, spacing=0.2, stable=2.0)
    """Before the judged window, and as long as the load balancer takes; what stays silent is judged as it is."""

    health_checks_answer: Budget = Budget("every health check", 15.0, need=3, spacing=0.2)
    """Our pods are ready by then; kube-proxy syncs within a second, by default, and the rest is for a busy machine."""

    ports_listen: Budget = Budget("every node to listen for a later Service", 20.0, need=3, spacing=0.1)
    """kube-proxy gets Services in the order of their creation: a node that listens for the last one knows all before
    it."""

    names_resolve: Budget = Budget("every name to resolve", 45.0, need=2, spacing=0.5)
    """DNS caches a name that was resolved too early as unknown, by default for up to half a minute."""

    services_answer: Budget = Budget("every node to serve all Services", 60.0, need=1, spacing=0.2)
    """The controller that makes EndpointSlices may be allowed twenty requests a second, then kube-proxy syncs."""

    services_closed: Budget = Budget(
        "every node to close the health checks of deleted Services", FIELD_LIMIT, need=1, spacing=0.2
    )
    """As long as upstream's own tests wait for kube-proxy to follow endpoints (KubeProxyEndpointLagTimeout)."""

    services_deleted: float = 180.0
    """Seconds until the many Services that are waited for are deleted."""

    job_ends: float = 120.0
    """Seconds after which a prober that has not finished a job is given up; the longest jobs take some ten."""

    # ----------------------------------------------------------------------------------------------- health checks
    port_followed: Budget = Budget(
        "every node to follow a change of a health-check node port", FIELD_LIMIT, need=3, spacing=LOOKS
    )
    """What core checks allow; a check of its own asks for ``timing.PROMPT`` seconds. kube-proxy needs a sync to open or
    close a listener."""

    round_followed: Budget = Budget("every node's health check to follow a change", FIELD_LIMIT, need=1, spacing=0.05)
    """What core checks allow; a check of its own asks for ``timing.PROMPT`` seconds."""

    round_made: Budget = Budget("esipp's own pods to reach the state of the round", 40.0, need=1, spacing=LOOKS)

    pod_serves: Budget = Budget("the node to serve before its pod terminates", 20.0, need=3, spacing=LOOKS)

    pod_leaves: Budget = Budget("the node to answer 503 after its pod began to terminate", 15.0, need=3, spacing=LOOKS)
    """What comes after it is judged, also if 503 never came."""

    # -------------------------------------------------------------------------------------------- endpoint changes
    first_pod: Budget = Budget("traffic to reach the first pod", 30.0, need=10, spacing=0.1)
    """Until the VIP answers every time, with one pod ready."""

    change_followed: float = 12.0
    """Seconds for an endpoint change to be followed, or ``change_bounds``, whichever is longer; at the latest from when
    a deleted pod stops serving. ``timing.PROMPT`` limits the lag of a node."""

    change_bounds: float = 4.0
    """How many bounds of the load balancer the same may take."""

    pod_again: Budget = Budget("a deleted pod to exist again", 40.0, need=1, spacing=0.05)
    """From when it has stopped serving."""

    both_nodes: Budget = Budget("traffic to reach both nodes", 15.0, need=3, spacing=0.1)
    """Before the balance is tested, and the load balancer's bound: it uses a second node after some checks of it."""

    bound_over: Budget = Budget("the load balancer's bound to pass", 5.0, need=1, spacing=0.1)
    """And the bound itself."""

    vips_released: Budget = Budget("the load balancer to release a deleted Service's VIPs", 30.0, need=1, spacing=0.2)

    # ---------------------------------------------------------------------------------------------- policy changes
    policy_followed: Budget = Budget("a policy change to be followed", FIELD_LIMIT, need=1, spacing=LOOKS)
    """Until right answers last, at every entry and at every health-check node port."""

    policy_loosely: float = 8.0
    """Seconds after which a policy change counts as followed without rewriting, if everything answers."""

    connections_made: Budget = Budget("connections to be established", 5.0, need=1, spacing=LOOKS)

    last_answers: Budget = Budget("the last answers", 5.0, need=1, spacing=LOOKS)
    """After the end: what stays silent is known to have done so only once its time is up."""

    # --------------------------------------------------------------------------------------------------- isolation
    other_followed: Budget = Budget("every node to follow a change of the other Service", 30.0, need=1, spacing=0.05)
    """kube-proxy syncs within a second of a change, by default; the rest is for a busy machine, and for a controller of
    EndpointSlices that has those of other Services to make first."""

    # --------------------------------------------------------------------------------------------- service changes
    slices_written: Budget = Budget("EndpointSlices to follow their Services", 30.0, need=1, spacing=LOOKS)
    """Their controller needs less than a second, or longer if it has those of many other Services to write first."""

    change_shown: Budget = Budget("every stream to show a change", FIELD_LIMIT + 4.0, need=1, spacing=0.25)
    """What is right only at the limit must have time to last: silence, for three seconds. Streams have a probe every
    0.4 s; to look at hundreds of them more often takes time from the readers of their results."""

    def shown_within(self, seconds: float) -> Budget:
        """The same where a change may take more than the usual limit."""
        return replace(self.change_shown, seconds=self.change_shown.seconds + max(0.0, seconds - FIELD_LIMIT))

    # -------------------------------------------------------------------------------------------------- continuity
    ways_settled: Budget = Budget("every way to answer every request", 30.0, need=3, spacing=0.1)
    """Before the first event, and after each one."""

    streams_heard: Budget = Budget("every stream to be answered again", CLEANED + 3.0, need=1, spacing=0.5)
    """After each event, where connection tracking may have to be cleaned; then each goes on from a new port."""

    pods_ready: Budget = Budget("all pods of the Deployment to be ready again", 120.0, need=1, spacing=LOOKS)

    health_follows: Budget = Budget("a node's health check to follow", 30.0, need=1, spacing=LOOKS)

    evicted: Budget = Budget("evicted pods to be gone", 60.0, need=1, spacing=LOOKS)

    joined_serves: Budget = Budget("a node that joined to serve", FIELD_LIMIT + 15.0, need=1, spacing=LOOKS)
    """Its kube-proxy may say some seconds later than its kubelet that it can serve."""

    vips_back: Budget = Budget("the previous nodes to announce the VIPs again", 15.0, need=1, spacing=LOOKS)
    """Then it goes on: a load balancer need not give them back."""

    vips_at_one_node: Budget = Budget("one node to have each VIP", ONE_NODE_WITHIN + 5.0, need=1, spacing=0.5)
    """After each event. A check allows as long."""

    sources_stable: Budget = Budget("pods to see the client's source address again", FIELD_LIMIT, need=1, spacing=LOOKS)
    """After the policy is Local again, either policy's source is right until then; a check of its own asks for less."""

    def slower(self, factor: float) -> "Timeouts":
        """The same for a cluster that needs so many times as long (``--timeout-factor``)."""
        return replace(self, **{name: longer(getattr(self, name), factor) for name in SLOWER})

    def answering(self, seconds: float) -> "Timeouts":
        """The same where a load balancer's first answer may take this long (``testbed.patience``)."""
        return replace(
            self,
            first_pod=replace(self.first_pod, seconds=max(self.first_pod.seconds, seconds)),
            ways_settled=replace(self.ways_settled, seconds=max(self.ways_settled.seconds, seconds)),
        )


SLOWER = (
    "paths_answer", "health_checks_answer", "ports_listen", "names_resolve", "services_answer", "services_deleted",
    "job_ends", "round_made",
    "pod_serves", "pod_leaves", "first_pod", "change_followed", "pod_again", "both_nodes", "connections_made",
    "other_followed", "slices_written", "ways_settled", "streams_heard", "pods_ready", "health_follows", "evicted",
    "vips_back", "joined_serves",
)  # fmt: skip
"""The waits that a slow cluster may need more time for.

Of the others, ``change_bounds`` is no time; ``policy_loosely``, ``last_answers`` and ``bound_over`` let a time pass;
all else ends with a limit of checks: what is later has failed.
"""

TIMEOUTS = Timeouts()
