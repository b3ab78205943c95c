"""What the compatibility suite has on the stage."""

from esipp.checks.api import EditRow, Verb
from esipp.checks.check import Row
from esipp.checks.model import OUTSIDE
from esipp.checks.policy_change import FlipRow
from esipp.scenarios.policy_change.objects import props as flip_props
from esipp.testbed.objects import Ground, Props


def props(rows: list[Row], ground: Ground) -> Props:
    """Everything these rows need; rows about the API alone make their own Services."""
    flips: list[Row] = [row for row in rows if isinstance(row, FlipRow)]
    steps = [step for row in rows if isinstance(row, EditRow) for step in row.chain.steps]
    asked = Props(clients=frozenset({OUTSIDE})) if any(step.verb is Verb.LISTEN for step in steps) else Props()
    return Props.all_of([asked, *([flip_props(flips, ground)] if flips else [])])
