"""Harmless: nodes choose one pod after the other for new connections, and not by chance, as IPVS does."""

from esipp.scenarios.service_change.subject import Pods
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.breaks.changes.not_followed import in_turn, once, selects

BREAK = Break(
    "pods-chosen-in-turn",
    Group.HARMLESS,
    "nodes send connections to a nodePort to the five pods of its Service in turn, and not by chance",
    RunOptions(("changes",), ("changes.scaled-up-and-down.", "changes.replaced.")),
    once("scaled-up-and-down", selects(Pods.ALL), in_turn, until=selects(Pods.FIRST)),
    no_check,
    at_once=False,
    scoped=True,
)
