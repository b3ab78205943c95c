"""The bound of a load balancer: how long it may use a node that lost its last endpoint. Pure."""

from esipp.judging.promise import Bound, promise_of
from esipp.loadbalancers.detection import Detected


def bound_of(seconds: float | None, detected: Detected) -> Bound | None:
    """The bound of the cluster's own load balancer, from the user, else the named profile, else the detected one.

    If several profiles fit equally well, the longest of their bounds counts. See ``promise_of``.

    Args:
        seconds: the seconds of ``--bound``; None without it.
        detected: the detected load balancer.

    Returns:
        None without a promise: no profile, or a load balancer that makes no health checks by default.
    """
    promise = promise_of(detected.profiles, sure=detected.named, bound=seconds)
    return None if promise.seconds is None else Bound(promise.seconds, promise.source)
