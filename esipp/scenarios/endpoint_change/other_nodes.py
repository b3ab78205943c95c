"""The nodes of a large cluster that no pod moves to: their health checks must say 503 all the time, whoever moves.

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
    """What they said.

    Args:
        service: whose health check it was.
        agents: how many asked.
        pace: seconds between two health checks of a node.
        told: the answers of each node that was asked, in stretches.
        asked: how many nodes were to be asked.
        trouble: why they were not, or not to the end.
    """

    service: str
    agents: int
    pace: float
    told: Mapping[str, Sequence[Stretch]]
    asked: int
    trouble: str = ""

    @classmethod
    def of(cls, service: str, polls: Everywhere) -> "Bystanders":
        """What polls have found."""
        trouble = polls.trouble or ("" if polls.agents else "there is no agent to probe them")
        return cls(service, len(polls.agents), polls.pace, dict(polls.told), len(polls.nodes), trouble)

    @property
    def wrong(self) -> dict[str, list[Stretch]]:
        """What else than 503 nodes said."""
        found = {node: [each for each in told if each.said != RIGHT] for node, told in sorted(self.told.items())}
        return {node: stretches for node, stretches in found.items() if stretches}

    @property
    def finding(self) -> str:
        """What is wrong, in a sentence; empty where nothing is."""
        named = [f"{node} ({_said(told)})" for node, told in list(self.wrong.items())[:MOST_NAMED]]
        more = f" and {len(self.wrong) - MOST_NAMED} more" if len(self.wrong) > MOST_NAMED else ""
        if not named:
            return ""
        return (
            f"of {counted(len(self.told), 'node')} that never had a pod of {self.service}, {len(self.wrong)} answered "
            f"its health check with something other than {RIGHT}: {', '.join(named)}{more}"
        )

    def lines(self) -> list[str]:
        """What a summary says of them; nothing where there are none."""
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
    """The nodes that can be asked and that no client outside asks all the time, by name."""
    return sorted(set(fit) - set(asked))
