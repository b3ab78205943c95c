"""A proxy that never answers some accepted connections."""

from esipp.checks.model import EntryKind
from esipp.checks.path import PathCheck
from tests.broken.balancing import OWN, PROFILE, fault
from tests.broken.breakage import CILIUM, KUBE_PROXY, Break, Group, RunOptions, path_checks
from tests.broken.ways import by_a_proxy


def proxied(path_check: PathCheck) -> bool:
    """Paths by the VIP of a proxy."""
    return path_check.subject.path.entry.kind is EntryKind.VIP and by_a_proxy(path_check.subject.path)


BREAK = Break(
    "balancer-hangs-one-in-twelve",
    Group.BALANCERS,
    "a proxy accepts one connection in twelve without ever answering it",
    RunOptions(("source_ip",), samples=60, own=OWN, options=PROFILE),
    fault("hang"),
    path_checks(proxied),
    names="a proxy on the way",
    share=0.9,  # of checks with 60 connections each, one in 200 has no such connection
    data_planes=(CILIUM, KUBE_PROXY),
)
