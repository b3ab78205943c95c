"""Port lifecycle: the requirements on each step of a health-check node port's life, one function for each claim. Pure.

Rules: API text of ``spec.healthCheckNodePort``; pkg/apis/core/validation.
"""

from collections import Counter
from collections.abc import Callable

from esipp.scenarios.health.evidence import Fact
from esipp.scenarios.paths.judge import say_observed

Claim = Callable[[Fact], tuple[bool, str]]


def _the_port(fact: Fact) -> int | None:
    return next(iter(fact.ports.values()), None)


def _allocated(fact: Fact) -> tuple[bool, str]:
    port = _the_port(fact)
    if port is None or fact.bounds is None:
        return False, f"port {port}"
    low, high = fact.bounds
    return low <= port <= high, f"port {port}, the range is {low}-{high}"


def _unique(fact: Fact) -> tuple[bool, str]:
    ports = [port for port in fact.ports.values() if port is not None]
    twice = sorted(port for port, count in Counter(ports).items() if count > 1)
    taken = sorted(set(ports) & fact.others)
    observed = f"{len(ports)} Services, {len(set(ports))} ports"
    observed += f"; {twice[0]} twice" if twice else ""
    observed += f"; {taken[0]} is also a nodePort" if taken else ""
    return len(ports) == len(fact.ports) >= 2 and not twice and not taken, observed


def _none(fact: Fact) -> tuple[bool, str]:
    port = _the_port(fact)
    return port is None, "none" if port is None else f"port {port}"


def _refused_as_invalid(fact: Fact) -> tuple[bool, str]:
    if fact.refused is None:
        return False, f"accepted, port {_the_port(fact)}"
    status, reason, message = fact.refused
    named = "healthchecknodeport" in message.lower()
    observed = f"refused as {reason} ({status})"
    return (status, reason) == (422, "Invalid") and named, observed if named else f"{observed}: {message}"


def _refused(fact: Fact) -> tuple[bool, str]:
    if fact.refused is None:
        return False, f"two Services have port {_the_port(fact)}"
    status, reason, message = fact.refused
    of_the_port = status in (409, 422, 500) and reason != "AlreadyExists"  # not about rights, nor the Service's name
    return of_the_port, f"refused as {reason} ({status}): {message}"


def _says_so(fact: Fact) -> tuple[bool, str]:
    message = fact.refused[2] if fact.refused else "not refused"
    return "allocat" in message.lower() or "healthchecknodeport" in message.lower(), message


def _as_wanted(fact: Fact) -> tuple[bool, str]:
    if fact.refused is not None:
        return False, f"refused as {fact.refused[1]} ({fact.refused[0]}): {fact.refused[2]}"
    port = _the_port(fact)
    return port is not None and port == fact.wanted, f"port {port}, expected {fact.wanted}"


def _listened(fact: Fact, wanted: str) -> tuple[bool, str]:
    """Whether every node gave only the expected answer at the port."""
    wrong = {node: said for node, said in fact.listeners.items() if set(said) != {wanted}}
    if not fact.listeners:
        return False, "no node was probed"
    if not wrong:
        return True, f"{wanted} on {len(fact.listeners)} node addresses"
    node, said = next(iter(wrong.items()))
    return False, f"{node}: {say_observed(said)}"


def _chosen(fact: Fact) -> tuple[bool, str]:
    held, observed = _as_wanted(fact)
    if not held:
        return False, observed
    return _listened(fact, "this service")


def _freed(fact: Fact) -> tuple[bool, str]:
    if fact.refused is not None:
        return False, f"refused as {fact.refused[1]} ({fact.refused[0]}): {fact.refused[2]}"
    if _the_port(fact) is not None:
        return False, f"still has port {_the_port(fact)}"
    return _listened(fact, "refused")


CLAIMS: dict[str, Claim] = {
    "allocated": _allocated,
    "unique": _unique,
    "not-with-cluster": _none,
    "not-for-nodeport": _none,
    "refused-with-cluster": _refused_as_invalid,
    "refused-for-nodeport": _refused_as_invalid,
    "chosen": _chosen,
    "immutable": _refused_as_invalid,
    "kept-on-update": _as_wanted,
    "kept-on-patch": _as_wanted,
    "kept-on-apply": _as_wanted,
    "kept": _chosen,
    "collision": _refused,
    "collision-words": _says_so,
    "freed-by-policy": _freed,
    "claimable": _chosen,
    "freed-by-type": _freed,
    "freed-by-deletion": _freed,
}
