"""How long the cluster's own load balancer may use a node that lost its last endpoint, and who says so. Pure."""

from dataclasses import dataclass

from esipp.loadbalancers.detection import Detected


@dataclass(frozen=True)
class Bound:
    """Seconds after which a load balancer must have left a node, and whose word that is."""

    seconds: float
    source: str


def bound_of(told: float | None, detected: Detected) -> Bound | None:
    """The bound of the cluster's own load balancer, by who goes first: the user, the profile told, the profile found.

    Where several profiles fit what was found equally well, the longest of their bounds counts.

    Args:
        told: the seconds of ``--bound``; None where it was not given.
        detected: what load balancer the cluster has, as far as is known.

    Returns:
        None where nobody promises anything: no profile, or a load balancer that asks no health checks by itself.
    """
    if told is not None:
        return Bound(told, "--bound")
    bounds = [(each.local.bound if each.local.on else None, each.name) for each in detected.profiles]
    known = [(seconds, name) for seconds, name in bounds if seconds is not None]
    if not known or len(known) < len(bounds):
        return None
    seconds, name = max(known)
    how = "told by --provider" if detected.told else "told by itself" if detected.itself else "found"
    return Bound(seconds, f"(N+1) x period of the profile {name}, {how}")
