"""A load balancer that sends to a node that joins before it knows whether the node can serve."""

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, What
from esipp.checks.model import Balancer
from tests.broken.balancing import OWN, PROFILE, options
from tests.broken.breakage import Break, Group, RunOptions

FORWARDERS = (Balancer.ECMP.value, Balancer.DEFAULT.value)
CHECKS = tuple(
    f"continuity.{phase.value}.{by}.local." for phase in (Phase.QUIET, Phase.IDLE_EXCLUDE) for by in FORWARDERS
)


def notices(check: Check) -> bool:
    return is_about(check, Continuity) and (check.subject.phase, check.subject.what) == (
        Phase.IDLE_EXCLUDE, What.NO_LOSS,
    )  # fmt: skip


def may(check: Check) -> bool:
    """Such a change of routes moves open connections to other nodes, too; a SYN that is sent again is late."""
    late = (What.NO_DELAY, What.LASTING)
    return is_about(check, Continuity) and check.subject.phase is Phase.IDLE_EXCLUDE and check.subject.what in late


def of_a_new_node(check: Check, *what: What) -> bool:
    return is_about(check, Continuity) and check.subject.phase is Phase.JOINED and check.subject.what in what


NEW_NODE = tuple(f"continuity.{phase.value}.{Balancer.ECMP.value}.cluster." for phase in (Phase.QUIET, Phase.JOINED))

BREAKS = (
    Break(
        "balancer-sends-to-a-node-that-joins-unchecked",
        Group.BALANCERS,
        "a load balancer sends to a node without an endpoint as soon as it joins, until its health checks have failed",
        RunOptions(("continuity",), CHECKS, disruptive=True, own=OWN, options=PROFILE),
        # With two failed checks a second apart, clients send their SYNs again in time.
        options("--fault", "joins-unchecked", "--unhealthy", "6"),
        notices,
        names="sends requests to a node that cannot serve",
        may=may,
        at_once=False,
    ),
    Break(
        "balancer-sends-to-a-new-node-unchecked",
        Group.BALANCERS,
        "a load balancer sends to another node as soon as that joins the cluster, until its health checks have failed",
        RunOptions(("continuity",), NEW_NODE, disruptive=True, own=OWN, options=PROFILE),
        options("--fault", "joins-unchecked", "--unhealthy", "6"),
        lambda check: of_a_new_node(check, What.NO_LOSS),
        names="sends requests to a node that cannot serve",
        may=lambda check: of_a_new_node(check, What.NO_DELAY, What.LASTING),
        at_once=False,
    ),
)
