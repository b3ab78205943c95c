"""Documentation pages generated from the rows, so that prose cannot drift from checks."""

from collections.abc import Sequence

from esipp.model import Cell, Level

HEAD = """# Rows

Generated from the rows themselves: `esipp list --format markdown > docs/cells.md`. Do not edit; a test holds this page
against them. `esipp explain ROW` tells more of each: what is sent, what every answer would mean, which controls must
hold.

"""


def cells_page(cells: Sequence[Cell]) -> str:
    """One table a suite and service: requirement, level, what the backend must see, why."""
    lines = [HEAD.rstrip("\n"), ""]
    counts = {level: sum(1 for cell in cells if cell.level is level) for level in Level}
    lines += [", ".join(f"{count} {level.value}" for level, count in counts.items() if count) + " rows.", ""]
    for title, group in _groups(cells).items():
        lines += [f"## {title}", "", "| row | level | the backend must see | requirement | because |"]
        lines += ["|---|---|---|---|---|"]
        for cell in group:
            shown = " or ".join(sorted(each.value for each in cell.accept))
            because = "<br>".join(cell.references)
            lines.append(f"| `{cell.id}` | {cell.level.value} | {shown} | {cell.requirement} | {because} |")
        lines.append("")
    return "\n".join(lines)


def _groups(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        service = cell.path.service
        what = (
            f"{service.type.value}" + (f", {service.policy.value}" if service.policy else "") if service else "Pod IP"
        )
        groups.setdefault(f"{cell.suite}: {what}, {cell.path.protocol.value}, {cell.path.family.value}", []).append(
            cell
        )
    return groups
