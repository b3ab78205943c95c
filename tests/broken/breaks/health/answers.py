"""Health checks with a wrong answer, or without one."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from esipp.checks.check import Check
from esipp.checks.health import About, Place
from esipp.checks.model import Family, Role
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.health_proxies import (
    READ,
    STATUS_AND_TRUTH,
    asked,
    asks,
    at_rest,
    claims,
    health_ports,
    lying,
    reads,
    refusing,
)
from tests.broken.nodes import Nodes, Placed

WHOLE_SUITE = RunOptions(("health_checks",))
IN_TIME = at_rest("healthcheck.in-time.")


def at_node(check: Check, *, with_pods: bool) -> bool:
    """What a node with local pods must answer, or one without."""
    question = asked(check, *STATUS_AND_TRUTH)
    return question is not None and bool(question.local_pods) is with_pods


def in_ipv6(check: Check, *parts: About) -> bool:
    question = asked(check, *parts)
    return question is not None and question.family is Family.IPV6


def in_time_at_bare_node(check: Check) -> bool:
    question = asked(check, About.TIME)
    return question is not None and question.place is Place.BARE_NODE


def stays(check: Check) -> bool:
    """Pods that move, and the node's last pod when it ends: the whole suite is asked."""
    return claims(check, "placement", "status", "count") or claims(check, "terminating", "status", "count")


def times_rounds(check: Check) -> bool:
    """It times the rounds that were followed: here few, or none."""
    return claims(check, "placement", "prompt")


def _of_status(check: Check) -> bool:
    return asks(check, About.STATUS)


def _health(
    name: str,
    what: str,
    apply: Callable[[Nodes], AbstractContextManager[Placed]],
    notices: Callable[[Check], bool],
    names: str,
    *,
    run: RunOptions | None = None,
    opens: Callable[[Check], bool] = no_check,
    unsure: Callable[[Check], bool] = no_check,
    share: float = 1.0,
    scoped: bool = True,
    fixed: bool = False,
) -> Break:
    return Break(
        f"health-{name}", Group.HEALTH, what, run or at_rest(), apply, notices,
        names=names, opens=opens, unsure=unsure, share=share, scoped=scoped, fixed=fixed,
    )  # fmt: skip


BREAKS = (
    _health(
        "always-200",
        "every node's health check always answers 200, with or without a local endpoint",
        lying("200"),
        lambda check: at_node(check, with_pods=False),
        "always says 200",
        fixed=True,
    ),
    _health(
        "always-503",
        "every node's health check always answers 503, with or without a local endpoint",
        lying("503"),
        lambda check: at_node(check, with_pods=True),
        "always says 503",
    ),
    _health(
        "another-status",
        "every node's health check answers 500",
        lying("500"),
        _of_status,
        "another process answers",
        opens=lambda check: asks(check, About.TRUTH),
    ),
    _health(
        "hangs-now-and-then",
        "the node without local endpoint answers one in four health checks only after six seconds; all answers are "
        "right",
        lying("hangs", health_ports, Role.BARE_NODE),
        in_time_at_bare_node,
        "answered too late",
        run=IN_TIME,
    ),
    _health(
        "ipv4-only",
        "on a dual-stack cluster, every node serves health checks over IPv4 only",
        refusing(Family.IPV6),
        lambda check: in_ipv6(check, About.STATUS),
        "in this IP family",
        opens=lambda check: in_ipv6(check, *READ),
    ),
    _health(
        "no-weight",
        "no node's health check has the header X-Load-Balancing-Endpoint-Weight",
        lying("weight"),
        lambda check: asks(check, About.WEIGHT),
        "the weight header is missing",
        run=WHOLE_SUITE,
    ),
    _health(
        "refused",
        "every node refuses connections to health-check node ports",
        refusing(*Family),
        _of_status,
        "nothing listens",
        opens=reads,
    ),
    _health(
        "slow",
        "every node's health check answers only after three seconds, later than the timeout",
        lying("slow"),
        _of_status,
        "does not answer in time",
        opens=reads,
    ),
    _health(
        "stuck-after-the-pod-left",
        "a health check that answered 200 once does so for ever, also after the node's last pod terminates",
        lying("stuck"),
        lambda check: claims(check, "terminating", "status", "count"),
        "terminating endpoints count as ready",
        run=at_rest("healthcheck.terminating."),
    ),
    _health(
        "stuck-while-pods-move",
        "a health check that answered 200 once does so for ever, also after the node's pods moved to another node",
        lying("stuck"),
        stays,
        "the health check is stuck",
        run=WHOLE_SUITE,
        unsure=times_rounds,
        share=0.7,  # after two late rounds no more are played: a node without a pod until then never said 200
        scoped=False,
    ),
    _health(
        "wrong-count",
        "every node's health check counts one endpoint too many, in the body and in the weight",
        lying("count"),
        lambda check: asks(check, About.COUNT, About.WEIGHT),
        "the count includes endpoints",
        fixed=True,
    ),
)
