"""Traffic that enters the pod network is masqueraded: all of it, one IP family or protocol, or a share."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from esipp.checks.check import Check
from esipp.checks.endpoint_change import EndpointChange, What
from esipp.checks.model import Balancer, Family, Protocol
from esipp.checks.path import PathCheck
from esipp.judging.frame import OVERLOADED
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import NAMES_THE_NODE, changed_into_pod_network, into_own_pods, into_pod_network
from tests.broken.nodes import Nodes, Placed

LONGEST = 600
"""Seconds after which the tasks end by themselves, if the test was killed."""


def every(number: int) -> tuple[str, ...]:
    """One connection in so many, by chance: turns could always fall on the same ones of several senders in step."""
    return ("--match", "statistic", "--mode", "random", "--probability", str(1 / number))


def one_flow_each(path_check: PathCheck) -> bool:
    """Datagrams of one socket are one connection, that one or another."""
    return changed_into_pod_network(path_check) and not path_check.subject.path.one_socket


def _only(
    what: str,
    apply: Callable[[Nodes], AbstractContextManager[Placed]],
    hit: Callable[[PathCheck], bool],
    *,
    fixed: bool = False,
) -> Break:
    """A part of all traffic."""
    return Break(
        f"source-rewritten-{what.lower()}-only",
        Group.SOURCE,
        f"every node masquerades traffic that enters the pod network, over {what} only",
        RunOptions(("source_ip",)),
        apply,
        path_checks(lambda path_check: changed_into_pod_network(path_check) and hit(path_check)),
        names=NAMES_THE_NODE,
        scoped=True,
        fixed=fixed,
    )


def _one_in(number: int, word: str, samples: int, share: float, *, fixed: bool = False) -> Break:
    """A share of all connections; ``share`` is that of checks which must notice, as others had none of these."""
    return Break(
        f"source-rewritten-one-in-{word}",
        Group.SOURCE,
        f"every node masquerades one in {word} connections that enter the pod network",
        RunOptions(("source_ip",), samples=samples),
        into_own_pods(*every(number)),
        path_checks(one_flow_each),
        names="that node masquerades",
        may=path_checks(changed_into_pod_network),
        share=share,
        scoped=True,
        fixed=fixed,
    )


@contextmanager
def on_an_overloaded_machine(nodes: Nodes) -> Iterator[Placed]:
    """All traffic is masqueraded, while each core has more than enough tasks for late answers to prove nothing.

    They give way to all others, so that the cluster lives.
    """
    spins = ["nice", "-n", "19", "timeout", str(LONGEST), sys.executable, "-c", "while True: pass"]
    tasks = [subprocess.Popen(spins) for _ in range(int(1.5 * OVERLOADED * (os.cpu_count() or 1)))]
    try:
        with into_pod_network()(nodes) as placed:
            yield placed
        assert all(task.poll() is None for task in tasks), "the machine was not overloaded to the end"
    finally:
        for task in tasks:
            task.terminate()
            task.wait()


def source_of_own(check: Check) -> bool:
    """The sources that the cluster's own load balancer and nodePorts show while endpoints change."""
    subject = check.subject
    if not isinstance(subject, EndpointChange):
        return False
    return subject.balancer is Balancer.DEFAULT and subject.what is What.SOURCE


BREAKS = (
    Break(
        "source-rewritten-while-endpoints-change",
        Group.SOURCE,
        "every node masquerades one in five connections that enter the pod network, while endpoints change",
        RunOptions(("convergence",), ("convergence.default.",)),
        into_pod_network(*every(5)),
        source_of_own,
        names="masquerades connections while endpoints change",
        at_once=False,
    ),
    Break(
        "source-rewritten",
        Group.SOURCE,
        "every node masquerades all traffic that enters the pod network",
        RunOptions(("source_ip",)),
        into_pod_network(),
        path_checks(changed_into_pod_network),
        names=NAMES_THE_NODE,
    ),
    Break(
        "source-rewritten-on-an-overloaded-machine",
        Group.SOURCE,
        "every node masquerades all traffic that enters the pod network, while each core has thirty tasks",
        RunOptions(("source_ip",), ("nodeport.local.",)),
        on_an_overloaded_machine,
        path_checks(changed_into_pod_network),
        names=NAMES_THE_NODE,
        unsure=lambda _: True,
    ),
    _only("IPv6", into_own_pods(families=(Family.IPV6,)), lambda each: each.subject.path.family is Family.IPV6),
    _one_in(50, "fifty", samples=200, share=0.9),
    _one_in(5, "five", samples=50, share=0.98, fixed=True),
    # the captures join SCTP by a way of its own, which no other break would miss
    _only(
        "SCTP",
        into_own_pods("--protocol", "sctp"),
        lambda each: each.subject.path.protocol is Protocol.SCTP,
        fixed=True,
    ),
    _only("UDP", into_own_pods("--protocol", "udp"), lambda each: each.subject.path.protocol is Protocol.UDP),
)
