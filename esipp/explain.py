"""A row in prose, generated from the row itself, so that it cannot drift from what is checked."""

import textwrap

from esipp.model import AddressClass, Cell, EntryKind, Path, Role, Vantage

WIDTH = 100

WHERE = {
    Role.ENDPOINT_NODE: "the endpoint node (it has the only ready backend)",
    Role.BARE_NODE: "a bare node (no backend, while the endpoint node has one)",
    Role.OTHER_NODE: "another node (no backend, and not the one that is dialled)",
}
MEANING = {
    AddressClass.CLIENT: "the source is the client's own address",
    AddressClass.NODE: "the source is an address of a node: it was masqueraded",
    AddressClass.POD: "the source is another pod's address",
    AddressClass.LOAD_BALANCER: "the source is the load balancer's address",
    AddressClass.HAIRPIN: "the source is a hairpin address",
    AddressClass.OTHER: "the source is nobody's we know, or something else answered",
    AddressClass.DROPPED: "silence until the timeout",
    AddressClass.REFUSED: "the connection is refused",
}


def explain(cell: Cell) -> str:
    """Requirement, why, what is sent where, what each answer would mean, what must hold besides, differences."""
    lines = [cell.id, "=" * len(cell.id), *textwrap.wrap(cell.requirement, WIDTH), ""]
    lines += [f"level       {cell.level.value}"]
    lines += _fold("because", "; ".join(cell.references))
    lines += _fold("sent", _sent(cell.path))
    lines += _fold("holds if", " or ".join(MEANING[each] for each in sorted(cell.accept)) + ", every single time")
    wrong = [MEANING[each] for each in AddressClass if each not in cell.accept]
    lines += _fold("fails if", "; or ".join(wrong))
    if cell.features:
        lines += _fold("needs", ", ".join(sorted(cell.features)))
    for control in cell.controls:
        shows = " or ".join(sorted(control.accept)) or "any answer of our echo server"
        lines += _fold("control", f"{control.path.key} shows {shows}: {control.why}")
    for override in cell.overrides:
        when = ", ".join(f"{name} is {value}" for name, value in override.when)
        shows = " or ".join(sorted(override.accept))
        lines += _fold("known", f"where {when}: {shows}, as {override.reason} [{override.reference}]")
    return "\n".join(lines)


def _sent(path: Path) -> str:
    client = f"from {path.client.name}"
    if path.client.vantage is Vantage.OUTSIDE:
        client += ", outside the cluster,"
    elif path.client.role is not None:
        what = "a pod" if path.client.vantage is Vantage.POD else "the host network"
        client += f", {what} on {WHERE[path.client.role]},"
    entries = {
        EntryKind.POD_IP: "the backend pod's own address",
        EntryKind.CLUSTER_IP: "the service's ClusterIP",
        EntryKind.VIP: "the service's load balancer VIP",
        EntryKind.NODE_PORT: "the service's nodePort",
        EntryKind.NODE_LISTENER: "the reference listener",
    }
    entry = entries[path.entry.kind] + (f" on {WHERE[path.entry.role]}" if path.entry.role else "")
    service = ""
    if path.service:
        policy = f" with externalTrafficPolicy {path.service.policy.value}" if path.service.policy else ""
        service = f"; the service is of type {path.service.type.value}{policy}"
    return f"new {path.protocol.value} connections over {path.family.value} {client} to {entry}{service}"


def _fold(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{label:<12}", subsequent_indent=" " * 12)
