"""Health checks of nodes without endpoint changes in a large cluster, which must say 503 all the time.

Asked by the agents (health/everywhere.py), for the client outside could not follow hundreds of nodes. What is found is
told and kept; no verdict rests on it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esipp.base.plural import counted
from esipp.scenarios.health.every_node import Everywhere, Stretch

RIGHT = "503"
MOST_NAMED = 5


@dataclass(frozen=True)
class Bystanders:
    """The answers of these nodes.

    Args:
        service: the Service of the health check.
        agents: the number of probing agents.
        pace: seconds between two probes of a node.
        told: the answers of each probed node, in stretches.
        asked: the number of nodes to probe.
        trouble: why they were not probed, or not to the end.
    """

    service: str
    agents: int
    pace: float
    told: Mapping[str, Sequence[Stretch]]
    asked: int
    trouble: str = ""

    @classmethod
    def of(cls, service: str, polls: Everywhere) -> "Bystanders":
        """The results of polls."""
        trouble = polls.trouble or ("" if polls.agents else "there is no agent to probe them")
        return cls(service, len(polls.agents), polls.pace, dict(polls.told), len(polls.nodes), trouble)

    @property
    def wrong(self) -> dict[str, list[Stretch]]:
        """The nodes with other answers than 503, and these answers."""
        found = {node: [each for each in told if each.said != RIGHT] for node, told in sorted(self.told.items())}
        return {node: stretches for node, stretches in found.items() if stretches}

    @property
    def finding(self) -> str:
        """The fault as a sentence; empty if there is none."""
        named = [f"{node} ({_said(told)})" for node, told in list(self.wrong.items())[:MOST_NAMED]]
        more = f" and {len(self.wrong) - MOST_NAMED} more" if len(self.wrong) > MOST_NAMED else ""
        if not named:
            return ""
        return (
            f"of {counted(len(self.told), 'node')} that never had a pod of {self.service}, {len(self.wrong)} answered "
            f"its health check with something other than {RIGHT}: {', '.join(named)}{more}"
        )

    def lines(self) -> list[str]:
        """The lines of the summary; empty without such nodes."""
        if not self.asked:
            return []
        answers = sum(each.count for told in self.told.values() for each in told)
        said = f"{counted(self.asked, 'node')} without endpoint changes, probed by {counted(self.agents, 'agent')}"
        said += f" every {self.pace:.1f} s"
        said += f": {counted(answers, 'answer')} from {counted(len(self.told), 'node')}"
        said += f", all {RIGHT}" if self.told and not self.wrong else ""
        lines = [said, *([f"  {self.finding}"] if self.wrong else [])]
        return lines + ([f"  incomplete: {self.trouble}"] if self.trouble else [])

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it: nodes that said 503 all the time by their number of answers only."""
        right = {node: sum(each.count for each in told) for node, told in self.told.items() if node not in self.wrong}
        return {
            "service": self.service,
            "agents": self.agents,
            "pace": round(self.pace, 3),
            "nodes": self.asked,
            "right": dict(sorted(right.items())),
            "others": {node: [each.as_json() for each in self.told[node]] for node in self.wrong},
            **({"trouble": self.trouble} if self.trouble else {}),
        }


def _said(stretches: Sequence[Stretch]) -> str:
    counts: dict[str, int] = {}
    for each in stretches:
        counts[each.said] = counts.get(each.said, 0) + each.count
    return ", ".join(f"{said} x{count}" for said, count in sorted(counts.items()))


def bystanders_of(fit: Collection[str], asked: Collection[str]) -> list[str]:
    """The nodes that agents can probe and no client outside probes all the time, by name."""
    return sorted(set(fit) - set(asked))
