"""A check in prose, generated from the check itself, so that it cannot drift from what is checked."""

import textwrap
from collections.abc import Iterable

from esipp.checks.check import KUBERNETES, Check, Level, older_than
from esipp.checks.model import POD_BACKEND, AddressClass, Claim, Client, EntryKind, Path, Port, Protocol, Vantage
from esipp.checks.path import Control, Override, PathCheck, Proof, Spread
from esipp.checks.picture import picture
from esipp.checks.reference import Reference, titles

WIDTH = 100

MEANING = {
    AddressClass.CLIENT: "the source is the client's own address",
    AddressClass.NODE: "the source is an address of a node: it was masqueraded",
    AddressClass.POD: "the source is another pod's address",
    AddressClass.LOAD_BALANCER: "the source is the load balancer's address",
    AddressClass.HAIRPIN: "the source is an address of the backend's own node: it reached itself, masqueraded",
    AddressClass.OTHER: "the source is nobody's we know, or something else answered",
    AddressClass.DROPPED: "silence until the timeout",
    AddressClass.REFUSED: "the connection is refused",
}
OF_A_HOST = {
    AddressClass.CLIENT: "the source is an address of the client's own node",
    AddressClass.NODE: "the source is an address of another node: it was masqueraded on the way",
}
"""What differs where the client is a process on the host network."""

OF_THE_BACKEND = {AddressClass.NODE: "the source is an address of another node than the backend's own"}

HEADERS = {
    Claim.FORWARDED_FOR: "X-Forwarded-For (its last entry: those before it may be the client's own words)",
    Claim.PROXY_V1: "the PROXY protocol header, version 1",
    Claim.PROXY_V2: "the PROXY protocol header, version 2",
}
PORTS = {
    Port.MAIN: "its main port",
    Port.NAMED: "the port whose targetPort is a name",
    Port.SAME: "the port whose targetPort is the same number",
    Port.HTTP: "its HTTP port",
}


def explain(path_check: PathCheck) -> str:
    """Requirement, why, topology, what is sent where, what each answer would mean, controls, known differences."""
    lines = [
        path_check.id,
        "=" * len(path_check.id),
        *textwrap.wrap(path_check.requirement, WIDTH, break_on_hyphens=False),
        "",
    ]
    lines += [f"  {line}" for line in picture(path_check)] + [""]
    lines += [f"{'level':<12}{path_check.level.value}"]
    lines += cite("because", path_check.references)
    lines += _fold("sent", _sent(path_check.path))
    lines += _fold("service", _service(path_check.path)) if path_check.path.service else []
    lines += _verdicts(path_check)
    lines += _fold("recorded", "whether source ports are kept, and where packets see the source change")
    lines += _fold("since", say_since(path_check)) if path_check.since else []
    lines += _fold("needs", ", ".join(sorted(each for each in path_check.features if not each.startswith(KUBERNETES))))
    for control in path_check.controls:
        lines += _fold("control", _control(control))
    for override in path_check.overrides:
        lines += _fold("known", _override(override))
        lines += _addresses(override.references)
    return "\n".join(lines)


def cite(label: str, references: Iterable[Reference]) -> list[str]:
    """Each reference's title, and its address in a line of its own, which nothing breaks."""
    lines = []
    for each in references:
        lines += [*_fold(label, each.title), *_addresses([each])]
        label = ""
    return lines


def _addresses(references: Iterable[Reference]) -> list[str]:
    return [" " * 12 + each.url for each in references if each.url]


def say_since(check: Check) -> str:
    """From which Kubernetes on the check can be asked, and why; empty where every one will do."""
    return f"Kubernetes {check.since}" + (f" ({check.since_why})" if check.since_why else "") if check.since else ""


def _verdicts(path_check: PathCheck) -> list[str]:
    """What each address class would mean for this check."""
    if path_check.level is Level.RECORD:
        return _fold("holds", "always: what is seen is recorded, " + _any_of(AddressClass, path_check.path.client))
    lines = _fold("holds if", _any_of(path_check.accept, path_check.path.client) + ", every single time")
    if path_check.told is not Claim.NOTHING:
        lines += _fold("", f"and the backend is told the client's own address in {HEADERS[path_check.told]}")
    if path_check.spread is Spread.ONE:
        lines += _fold("", "and one and the same backend answers all of them")
    if path_check.is_negative:
        lines += _fold("", "and packets, where they are captured, go to no backend either")
    lines += _fold("flaky if", "some are so and some are not")
    return lines + _fold("fails if", _any_of(set(AddressClass) - path_check.accept, path_check.path.client))


def _any_of(classes: Iterable[AddressClass], client: Client) -> str:
    wanted, meaning = set(classes), meaning_for(client)
    return "; or ".join(meaning[each] for each in AddressClass if each in wanted and each in meaning)


def meaning_for(client: Client) -> dict[AddressClass, str]:
    """What each class means that this client's address can fall in: only the backend itself can be a hairpin."""
    if client.name == POD_BACKEND:
        return MEANING | OF_THE_BACKEND
    own = OF_A_HOST if client.vantage is Vantage.NODE else {}
    return {each: text for each, text in (MEANING | own).items() if each is not AddressClass.HAIRPIN}


def _sent(path: Path) -> str:
    what = {
        Protocol.TCP: "TCP connections, each from a source port of its own,",
        Protocol.UDP: "UDP datagrams, each from a source port of its own,",
        Protocol.SCTP: "SCTP INITs from a raw socket, each with a source port of its own,",
    }[path.protocol]
    if path.one_socket:
        what = "UDP datagrams, all from one source port,"
    if path.port is Port.HTTP:
        what = "HTTP requests, each on a TCP connection and from a source port of its own,"
    sent = f"{what} over {path.family.value} from {path.client.name} to {_where(path)}"
    if path.claim is not Claim.NOTHING:
        sent += f"; the client claims another address in {HEADERS[path.claim].partition(' (')[0]}"
    return sent


def _where(path: Path) -> str:
    node = f" of the {path.entry.role.value.replace('-', ' ')}" if path.entry.role else ""
    return {
        EntryKind.POD_IP: "the backend pod's own address",
        EntryKind.CLUSTER_IP: "the service's ClusterIP",
        EntryKind.VIP: "the service's load balancer VIP",
        EntryKind.NODE_PORT: f"the service's nodePort at the InternalIP{node}",
        EntryKind.SECOND_ADDRESS: f"the service's nodePort at a second address{node}",
        EntryKind.EXTERNAL_IP: f"the service's externalIP that is the InternalIP{node}",
        EntryKind.NODE_LISTENER: f"the reference listener{node}",
    }[path.entry.kind]


def _service(path: Path) -> str:
    """The Service's spec, as far as it matters."""
    service = path.service
    assert service is not None
    fields = {
        "type": service.type.value,
        "externalTrafficPolicy": (service.policy.value if service.policy else "unset") if service.is_external else "",
        "internalTrafficPolicy": service.internal.value if service.internal else "",
        "loadBalancerClass": service.balancer.value if service.balancer.value != "default" else "",
        "ipFamilies": f"{service.families.value} only" if service.families else "",
        "sessionAffinity": "ClientIP" if service.affinity else "",
        "annotations external-traffic": f"{service.old_form.value} (alpha and beta)" if service.old_form else "",
        "publishNotReadyAddresses": "true" if service.publish_not_ready else "",
        "externalIPs": "the InternalIPs of the endpoint node and of the bare node" if service.external_ips else "",
        "loadBalancerSourceRanges": f"the addresses of {', '.join(service.ranges)}" if service.ranges else "",
    }
    said = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
    return f"{said}; dialled at {PORTS[path.port]}"


def _control(control: Control) -> str:
    shows = " or ".join(sorted(control.accept)) or "any answer of our echo server"
    if control.spread is Spread.SEVERAL:
        shows += " from several backends"
    return f"{control.path.key} shows {shows}: {control.why}"


def _override(override: Override) -> str:
    when = " and ".join(f"{name} is {value}" for name, value in override.when)
    when += f", {older_than(override.before)}" if override.before else ""
    named = f"the address that {override.names} names"
    proven = {Proof.OWN_NODE: "an address of the client's own node", Proof.FACT: named}
    shows = proven.get(override.proof) or " or ".join(sorted(override.accept))
    if override.proof is Proof.BALANCER:
        shows = " or ".join(filter(None, ("the load balancer's own address", shows)))
    shows += ", and packets may reach a backend" if override.forwarded else ""
    said = f"{f'where {when}' if when else 'anywhere'}: {shows}, as {override.reason} [{titles(override.references)}]"
    return f"{said} {override.evidence}".strip()


def _fold(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{label:<12}", subsequent_indent=" " * 12, break_on_hyphens=False)
