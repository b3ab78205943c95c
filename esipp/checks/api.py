"""API checks: chains of requests about Services, the expected answers, and the type of check. No I/O.

Semantics: the API text of Service; pkg/apis/core/validation and pkg/registry/core/service.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

from esipp.base.json import Json
from esipp.checks.check import Check, Profile, Subject

POLICY, INTERNAL = "spec.externalTrafficPolicy", "spec.internalTrafficPolicy"
HEALTH_PORT, NODE_PORT = "spec.healthCheckNodePort", "spec.ports.0.nodePort"
CLASS, ALLOCATE = "spec.loadBalancerClass", "spec.allocateLoadBalancerNodePorts"
FAMILIES, FAMILY_POLICY, CLUSTER_IP = "spec.ipFamilies", "spec.ipFamilyPolicy", "spec.clusterIP"
RANGES, INGRESS, CLUSTER_IPS = "spec.loadBalancerSourceRanges", "status.loadBalancer.ingress", "spec.clusterIPs"
TARGET_PORT, AFFINITY = "spec.ports.0.targetPort", "spec.sessionAffinity"
AFFINITY_SECONDS = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"

ANNOTATION = "annotation "
"""Prefix of paths that name an annotation, because its key contains dots."""


class Verb(StrEnum):
    """The kind of a step.

    ``create`` and ``replace`` send a whole manifest without allocated values. ``update`` reads, changes some fields and
    writes the whole object back. ``free`` finds an unused node port. ``listen`` probes every node on a port that must
    be closed, and on another one that must be open.
    """

    CREATE = "create"
    REPLACE = "replace"
    UPDATE = "update"
    MERGE = "merge-patch"
    STRATEGIC = "strategic-merge-patch"
    JSON = "json-patch"
    APPLY = "apply-patch"
    STATUS = "status"
    DELETE = "delete"
    LOOK = "look"
    FREE = "free"
    LISTEN = "listen"


@dataclass(frozen=True)
class Ref:
    """The value at a path of an earlier step's answer; with ``text``, as a string."""

    step: str
    path: str
    text: bool = False


@dataclass(frozen=True)
class Step:
    """One request.

    Args:
        name: the name of its answer.
        verb: its kind.
        body: spec and annotations for a creation, values by path for an update, else the sent body. It may hold Refs.
        of: one of the chain's Services; the empty name is the default one.
        drop: paths that an update omits.
        since: the step with the answer that an update starts from; empty for the current object.
        manager, force: parameters of an apply.
        alone: whether the chain continues if the request is refused; else the Service gets no more requests.
    """

    name: str
    verb: Verb
    body: Any = None
    of: str = ""
    drop: tuple[str, ...] = ()
    since: str = ""
    manager: str = ""
    force: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Chain:
    """Consecutive steps on Services of their own."""

    name: str
    steps: tuple[Step, ...]

    @property
    def reuses_a_port(self) -> bool:
        """Return whether a step requests a freed port again, which the server may have given to another Service."""
        return any(not ref.text for step in self.steps for ref in refs_in(step.body))


class Is(Enum):
    """The condition on a field with a value that the server chooses."""

    ABSENT = "none"
    PRESENT = "one"


@dataclass(frozen=True)
class Addresses:
    """The condition on a list of addresses: one of each of these families, in this order."""

    families: tuple[str, ...]


@dataclass(frozen=True)
class Same:
    """The value that the field had in an earlier step's answer."""

    step: str


@dataclass(frozen=True)
class Taken:
    """The server accepts the step, and its answer has these fields: a value, ``Is``, ``Addresses`` or ``Same``."""

    step: str
    fields: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Refused:
    """The server refuses the step with one of these HTTP statuses and reasons, and a message with all of ``says``."""

    step: str
    statuses: tuple[int, ...] = (422,)
    reasons: tuple[str, ...] = ("Invalid",)
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Warned:
    """The server accepts the step with a warning that contains this text, or (``absent``) without such a warning."""

    step: str
    text: str
    absent: bool = False


@dataclass(frozen=True)
class Quiet:
    """No node answers on one port, while every node answers on another."""

    step: str


Want = Taken | Refused | Warned | Quiet


@dataclass(frozen=True)
class Answer:
    """The API server's answer to a step; ``refused`` has HTTP status, reason and message.

    ``trouble`` says why there was no request, or why its answer says nothing about the server.
    """

    object: Json = field(default_factory=dict)
    refused: tuple[int, str, str] | None = None
    warnings: tuple[str, ...] = ()
    trouble: str = ""


@dataclass(frozen=True)
class Requests(Subject):
    """The answers to a chain.

    Args:
        claim: names the check.
        chain: the requests; checks may share a chain.
        wants: the conditions, which must all hold.
        given: the preconditions; the check proves nothing without them.
    """

    claim: str
    chain: Chain = field(compare=False, repr=False)
    wants: tuple[Want, ...] = field(compare=False)
    given: tuple[Taken, ...] = field(default=(), compare=False)

    @property
    def part(self) -> str:
        """Return the chain."""
        return self.chain.name

    @property
    def bodies(self) -> tuple[Any, ...]:
        """Return those of the chain."""
        return tuple(step.body for step in self.chain.steps)

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the claim."""
        return {"claim": self.claim}

    @property
    def on_host_network(self) -> bool:
        """Return whether the chain probes ports from a client outside."""
        return any(step.verb is Verb.LISTEN for step in self.chain.steps)

    @property
    def through_pods(self) -> bool:
        """Return False: requests go to the API server only."""
        return False

    @property
    def profile(self) -> Profile:
        """Return the type of the chain's first Service; without a type it is ClusterIP."""
        specs = (step.body.get("spec", {}) for step in self.chain.steps if isinstance(step.body, dict))
        kind = next((spec["type"] for spec in specs if isinstance(spec, dict) and "type" in spec), "ClusterIP")
        return Profile(kind) if kind in list(Profile) else Profile.CLUSTER_IP


ApiCheck = Check[Requests]


def at(found: Any, path: str) -> Any:
    """Return the value at a path of an object, or None."""
    if path.startswith(ANNOTATION):
        return (found.get("metadata", {}).get("annotations") or {}).get(path.removeprefix(ANNOTATION))
    for part in path.split("."):
        if isinstance(found, list):
            found = found[int(part)] if int(part) < len(found) else None
        else:
            found = found.get(part) if isinstance(found, Mapping) else None
    return found


def refs_in(body: Any) -> Iterator[Ref]:
    """Yield every Ref in a body."""
    if isinstance(body, Ref):
        yield body
    parts = body.values() if isinstance(body, Mapping) else body if isinstance(body, list) else ()
    for part in parts:
        yield from refs_in(part)


def is_absent(value: Any) -> bool:
    """Return whether a field is missing or has an empty value."""
    return value is None or (not isinstance(value, bool) and not value)


# ----------------------------------------------------------------------------------------------------------- in words
def say_path(path: str) -> str:
    """Return the usual name of a field."""
    if path.startswith(ANNOTATION):
        return path
    parts = [part for part in path.split(".") if not part.isdigit() and part not in ("spec", "status")]
    return (
        "port"
        if parts == ["port"]
        else ".".join(parts[-1:] if parts[0] in ("ports", "sessionAffinityConfig") else parts)
    )


def say_want(want: Want) -> str:
    """Return a condition in a few words."""
    if isinstance(want, Taken):
        return ", ".join(_fields(want)) or "accepted"
    if isinstance(want, Refused):
        words = f"refused as {' or '.join(want.reasons)} ({' or '.join(map(str, want.statuses))})"
        return words + (f", naming {' and '.join(want.says)}" if want.says else "")
    if isinstance(want, Warned):
        return f"{'no' if want.absent else 'a'} warning about {want.text}"
    return "no answer on any node"


def _fields(want: Taken) -> Iterator[str]:
    for path, value in want.fields:
        name = say_path(path)
        if isinstance(value, Same):
            yield f"the same {name}"
        elif isinstance(value, Is):
            article = "an" if name.startswith(ANNOTATION) else "a"
            yield f"no {name}" if value is Is.ABSENT else f"{article} {name}"
        elif isinstance(value, Addresses):
            yield (
                f"{name} of {' and '.join(value.families)}, in this order"
                if value.families[1:]
                else (f"{name} of {value.families[0]} only")
            )
        else:
            yield f"{name} {say_value(value)}"


def say_value(value: Any) -> str:
    """Return a field's value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(say_value(each) for each in value)
    if isinstance(value, Ref):
        return f"that of step {value.step}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {say_value(each)}" for name, each in value.items()) + "}"
    return str(value) if str(value).strip() else f"'{value}'"


def say_step(step: Step) -> str:
    """Return a request in words, by which a ledger's chains are found: another text is another chain."""
    whom = f" service {step.of}" if step.of else ""
    what = f" {say_value(step.body)}" if step.body else ""
    what += f" without {' and '.join(map(say_path, step.drop))}" if step.drop else ""
    what += f", as it was at step {step.since}" if step.since else ""
    what += f", as {step.manager}{' with force' if step.force else ''}" if step.manager else ""
    return f"{step.verb.value}{whom}{what}"
