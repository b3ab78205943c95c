"""The generator of docs/environments.md, from the records of these tests."""

from collections.abc import Mapping, Sequence
from typing import Any

from esipp.base import markdown

HEAD = """# Bad input and failing environments

Messages and exit codes of a run with bad input or in a failing environment. `tests/hostile` tests each case on a kind
cluster (`./ci/enter python -m pytest tests/hostile --context kind-esipp`) and stores the results in
`records/environments.jsonl`; `ci/generate` renders this page. `RUN` is a run's id. None of these cases may turn a check
`fail` or `flaky`: that would be a bug of this suite.
"""

GROUPS = {
    "input": (
        "Before a run",
        "Exit code 4: nothing was created. 3: the problem appeared during set-up. 0: the run is not affected.",
    ),
    "policies": ("Policies of the cluster", ""),
    "beside": ("Concurrent runs", ""),
    "midway": (
        "During a run",
        "A run survives temporary failures. It judges observations only if its own pods and probers were intact "
        "meanwhile. Results are PARTIAL here, as these runs include only a few checks.",
    ),
}

TAIL = """
## Not covered here

* **A folder that is not writable**: see the unit tests (`tests/unit/test_ledger.py`).
* **A docker engine that does not start**: `ci/conformance` reports it, not `esipp`.
* **A clock step of the whole machine** was not tested, as it affects all processes. The test changes the wall clock of
  the run's own process. Timeouts and comparisons with probers use only monotonic clocks.
* **Enforced NetworkPolicies**: the network add-on of this cluster (`ci/hermetic/node/network_addon.py`) enforces none.
  kind's own add-on does, since kind v0.24, but was not available. The tests show that a run adds its own policy next
  to one that denies everything. That it overrides the other follows from the API, as policies are additive. It cannot
  override cluster-wide policies of add-ons (ClusterNetworkPolicy, Calico's, Cilium's); traffic that those drop looks
  like silence of the data plane.
"""


def render(tried: Sequence[Mapping[str, Any]]) -> str:
    """Render the page."""
    parts = [HEAD]
    for group, (title, words) in GROUPS.items():
        checks = [each for each in tried if each["group"] == group]
        parts += [f"\n## {title}\n", f"\n{words}\n" if words else ""]
        parts += [f"\n{line}" for line in markdown.table(HEADS, map(_cells, checks))]
        parts += ["\n"]
    return "".join(parts) + TAIL


HEADS = ("situation", "message", "exit code", "left behind", "method")


def _cells(record: Mapping[str, Any]) -> tuple[object, ...]:
    said = _table_cell(record["message"]) + (f"<br>hint: {_table_cell(record['hint'])}" if record["hint"] else "")
    left = record["left"] + (f"; {record['then']}" if record["then"] else "")
    what, how = _table_cell(record["what"]), _table_cell(record["how"])
    return what, said, record["code"], _table_cell(left), how


def _table_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
