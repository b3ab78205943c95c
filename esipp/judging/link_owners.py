"""Who answers for an address on a link (ARP, NDP), and whether that is one node at a time. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.base.plural import counted
from esipp.checks.check import Check, Status
from esipp.checks.model import Outcome
from esipp.checks.power import most_unseen, say_share
from esipp.judging.frame import Decision, ours_failed, undecided

SILENT = "no answer"
LEAST = 3
"""The fewest questions that allow a decision."""


ANSWERED_WITHIN = 1.0
"""Seconds in which hosts may answer who has an address. For others (proxy ARP), Linux answers after up to 0.8 s."""


@dataclass(frozen=True)
class LinkAnswer:
    """All answers to one question of a client: who of its link has an address?

    Args:
        at: when it was asked.
        outcome: ``unreachable`` if the address is not on a link of the client.
        links: the link addresses that answered.
        detail: what else the prober says.
    """

    at: float
    outcome: Outcome
    links: tuple[str, ...] = ()
    detail: str = ""


def nodes_by_link(answers: Mapping[str, Iterable[LinkAnswer]]) -> dict[str, str]:
    """The node of each link address, from who answers for the nodes' own addresses."""
    return {link: node for node, told in answers.items() for each in told for link in each.links}


def owners(answer: LinkAnswer, nodes: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes that answered; of a machine that is no known node, its link address."""
    return tuple(sorted({nodes.get(link, link) for link in answer.links}))


def off_link(answers: Iterable[LinkAnswer]) -> str:
    """Why the client cannot ask for an address at all; empty if it can, or did not."""
    told = list(answers)
    return told[0].detail if told and all(each.outcome is Outcome.UNREACHABLE for each in told) else ""


def decide_one_node(check: Check, answers: Mapping[str, Sequence[LinkAnswer]], nodes: Mapping[str, str]) -> Decision:
    """The decision on whether one node at a time answers for addresses.

    Args:
        check: the check.
        answers: what came of the questions, by the address.
        nodes: the node of each link address; those that answer for their own addresses, as the control.
    """
    told = [(address, each) for address, of in answers.items() for each in of]
    failed = next((each for _, each in told if each.outcome is Outcome.ERROR), None)
    if failed is not None:
        return ours_failed(check, "nothing", f"the prober failed: {failed.detail}")
    if any(len(of) < LEAST for of in answers.values()) or not told:
        return undecided(check, f"only {len(told)} questions were asked who has the VIP")
    if why := off_link(each for _, each in told):
        return undecided(check, f"the VIP is {why}")
    found = Counter(" and ".join(owners(each, nodes)) or SILENT for _, each in told)
    observed = ", ".join(f"{words} x{count}" for words, count in found.most_common())
    observed += f"; {counted(len(set(nodes.values())), 'node')} answer for their own addresses"
    if several := [(address, each) for address, each in told if len(owners(each, nodes)) > 1]:
        address, first = several[0]
        who = " and ".join(owners(first, nodes))
        reason = f"several nodes answer for one VIP: {who} for {address}, {len(several)} of {len(told)} times"
        return Decision(Status.FAIL, check.expected, observed, reason, "several", dict(found))
    if not nodes:
        return undecided(check, "no node answers for its own address, so silence proves nothing", observed)
    if mute := [address for address, of in answers.items() if not any(each.links for each in of)]:
        return undecided(check, f"nobody on the client's link answers for {mute[0]}", observed)
    least = min(map(len, answers.values()))
    sees = f"a second node that answers {say_share(most_unseen(least))} of questions or more, with 95 % confidence"
    return Decision(Status.PASS, check.expected, observed, tally=dict(found), sees=sees)


STEADY = 2.0
"""Seconds without a second node that answers, after which one node is the only one again."""


def decide_one_node_again(
    check: Check, told: Sequence[LinkAnswer], nodes: Mapping[str, str], since: float, within: float
) -> Decision:
    """The decision on whether one node at a time answers for an address, at the latest some time after an event.

    Args:
        check: the check.
        told: what came of the questions from the end of the event on, in order, until the next one.
        nodes: as for ``decide_one_node``.
        since: when the event was over.
        within: seconds after that.
    """
    last = max((at for at, each in enumerate(told) if len(owners(each, nodes)) > 1), default=-1)
    if last < 0 or not nodes or any(each.outcome is Outcome.ERROR for each in told):
        return decide_one_node(check, {"the VIP": told}, nodes)
    who, lasted, watched = " and ".join(owners(told[last], nodes)), told[last].at - since, told[-1].at - since
    observed = f"{who} answered for {lasted:.1f} s after that, of {watched:.1f} s; {within:g} s are allowed"
    if lasted > within:
        reason = f"several nodes answer for one VIP: {who}, still {lasted:.0f} s after that"
        return Decision(Status.FAIL, check.expected, observed, reason, "several", {"broken": 1})
    if watched - lasted < STEADY:
        return undecided(
            check, f"several nodes answer for the VIP, which was watched for {watched:.0f} s only", observed
        )
    return Decision(Status.PASS, check.expected, observed, tally={"kept": 1})
