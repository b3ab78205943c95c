"""The bound of a load balancer: how long it may use a node that lost its last endpoint. Pure."""

from esipp.judging.promise import Bound, promise_of
from esipp.loadbalancers.detection import Detected


def bound_of(told: float | None, detected: Detected) -> Bound | None:
    """The bound of the cluster's own load balancer, by who goes first: the user, the profile told, the profile found.

    Where several profiles fit what was found equally well, the longest of their bounds counts. See ``promise_of``.

    Args:
        told: the seconds of ``--bound``; None where it was not given.
        detected: what load balancer the cluster has, as far as is known.

    Returns:
        None where nobody promises anything: no profile, or a load balancer that asks no health checks by itself.
    """
    promise = promise_of(detected.profiles, sure=detected.told, bound=told)
    return None if promise.seconds is None else Bound(promise.seconds, promise.source)
