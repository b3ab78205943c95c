"""The table of docs/large-clusters.md, from what was measured."""

from collections.abc import Sequence

from ci import records
from esipp.base import markdown
from esipp.base.json import Json

MEASURED = records.FOLDER / "large-clusters.jsonl"


def table(measured: Sequence[Json]) -> list[str]:
    """One line for each number of nodes."""
    head = (
        "nodes", "agents", "API calls", "during health checks", "preflight", "agents ready", "health checks",
        "of a node every", "memory", "one node more",
    )  # fmt: skip
    rows = []
    first = measured[0]
    for each in measured:
        more = each["nodes"] - first["nodes"]
        slope = f"{1024 * (each['peak'] - first['peak']) / more:.0f} KiB" if more else ""
        cells = (
            each["nodes"], each["agents"], sum(each["calls"].values()), each["calls_while_polling"],
            f"{each['seconds']['preflight']:.2f} s", f"{each['seconds']['agents']:.2f} s", each["answers"],
            f"{each['pace']:.1f} s", f"{each['peak']:.0f} MiB", slope,
        )  # fmt: skip
        rows.append(cells)
    return list(markdown.table(head, rows))
