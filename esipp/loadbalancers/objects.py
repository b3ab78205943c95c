"""Objects of a load balancer's own kinds, which show how it works: read where its pods exist."""

from collections.abc import Collection, Iterable

from esipp.checks.profile import LoadBalancer
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.loadbalancers.detection import workloads_by

NOT_FOUND = 404


def objects_of(cluster: Cluster, known: Iterable[LoadBalancer], workloads: Collection[str]) -> dict[str, bool]:
    """Which collections have something in them; those that may not be read, or cannot be now, are left out."""
    wanted = [profile.found for profile in known if workloads_by(profile.found, workloads)]
    found: dict[str, bool] = {}
    for name in sorted({name for marks in wanted for name in marks.objects}):
        try:
            answer = cluster.request("GET", f"/apis/{name}", query={"limit": "1"})
        except ApiError as refused:
            if refused.status == NOT_FOUND:  # there is no such kind
                found[name] = False
        except UnreachableError:
            pass
        else:
            found[name] = bool(answer.get("items"))
    return found
