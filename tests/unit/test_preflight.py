"""What a cluster offers, as a dry run of a Service tells it: nodes with two families may have services with one."""

from typing import Any, cast

import pytest

from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.preflight import _features, _service_families
from esipp.rows import Feature
from tests.unit.world import ROLES, topology


class Asked:
    """An API server that answers a dry run with these families, or fails."""

    def __init__(self, answer: list[str] | Exception | None) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, Any]]] = []

    def request(self, method: str, path: str, *, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((method, query["dryRun"], body["spec"]))
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"spec": {"ipFamilies": self.answer} if self.answer is not None else {}}


def families(answer: list[str] | Exception | None) -> set[str] | None:
    return _service_families(cast(Cluster, Asked(answer)))


def features(services: set[str] | None) -> dict[str, Feature]:
    found = _features(topology().nodes, ROLES, "kind", services)
    return {name: found[name] for name in ("family.ipv4", "family.ipv6", "families.dual")}


def test_it_is_asked_with_a_dry_run_for_both_families() -> None:
    asked = Asked(["IPv4"])
    assert _service_families(cast(Cluster, asked)) == {"IPv4"}
    ((method, dry_run, spec),) = asked.requests
    assert (method, dry_run, spec["ipFamilyPolicy"]) == ("POST", "All", "PreferDualStack")


@pytest.mark.parametrize("answer", [ApiError(403, "Forbidden", "no", "POST"), UnreachableError("gone"), [], None])
def test_what_does_not_tell_decides_nothing(answer: Any) -> None:
    assert families(answer) is None
    assert all(feature.present for feature in features(None).values())


def test_services_of_both_families() -> None:
    assert all(feature.present for feature in features({"IPv4", "IPv6"}).values())


@pytest.mark.parametrize(("has", "lacks"), [("IPv4", "IPv6"), ("IPv6", "IPv4")])
def test_single_stack_services_on_dual_stack_nodes_lack_a_family(has: str, lacks: str) -> None:
    found = features({has})
    assert found[f"family.{has.lower()}"].present
    missing = found[f"family.{lacks.lower()}"]
    assert not missing.present
    assert not missing.ours, "the cluster lacks it, not we"
    assert missing.why == f"every node has an InternalIP, but a Service gets only {has} (a dry run)"
    assert not found["families.dual"].present
