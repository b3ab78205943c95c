"""What a run may do: docs/rbac.yaml grants exactly that; a missing right is reported, and never stumbled over."""

import re
from pathlib import Path
from typing import Any, cast

import pytest

from esipp.base.errors import PreflightError
from esipp.checks.catalog import all_checks, suite_names
from esipp.checks.check import Level
from esipp.checks.rights import Right
from esipp.cluster.client import Cluster
from esipp.cluster.rights import OF_DISRUPTIONS, OF_FEATURES, WELCOME, all_rights, needed
from esipp.ledger.run import Settings
from esipp.preflight.preflight import Findings, examine
from tests.unit.rights_world import LESS, PAGE, ROLES, Guarded, documents, granted, rules

RULES = rules(PAGE)
PAGES = pytest.mark.parametrize("page", [PAGE, LESS], ids=lambda page: page.stem)


def named(rule: tuple[str, dict[str, Any]]) -> str:
    names = rule[1].get("resourceNames", [])
    return " ".join([*rule[1]["verbs"], *rule[1]["resources"], *names, rule[0]]).strip()


def examined(rights: Any, *, disruptive: bool = True) -> Findings:
    cluster = cast(Cluster, Guarded(rights))
    return examine(cluster, Settings(context="home", outside="none", allow_disruptive=disruptive), suite_names())


def test_the_page_grants_exactly_what_is_made_use_of() -> None:
    found = list(granted(RULES))
    assert set(found) == all_rights()
    assert len(found) == len(set(found)), "each once"


def test_the_account_without_privileges_has_fewer() -> None:
    fewer = set(granted(rules(LESS)))
    assert fewer < all_rights()
    assert fewer >= set(needed(suite_names(), disruptive=False))
    assert not fewer & {*OF_DISRUPTIONS, *(right for those in OF_FEATURES.values() for right in those)}


@PAGES
def test_no_page_grants_more_than_can_be_named(page: Path) -> None:
    for right in granted(rules(page)):
        assert "*" not in (right.verb, right.resource, right.group)
        assert right.verb in ("create", "get", "list", "watch", "patch", "update", "delete")
        assert right.resource not in ("secrets", "nodes/proxy", "serviceaccounts/token", "pods/portforward")
        known = ("", "apps", "discovery.k8s.io", "coordination.k8s.io", "networking.k8s.io", "metallb.io")
        policies = ("policy.networking.k8s.io", "cilium.io", "crd.projectcalico.org")
        assert right.group in known or (right.group in policies and right.verb == "list")


@PAGES
def test_every_rule_says_what_it_is_for(page: Path) -> None:
    lines = page.read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"- apiGroups: ", line)]
    assert len(starts) >= len(rules(page))
    assert [lines[number - 1] for number in starts if not re.match(r"# \S", lines[number - 1])] == []


@PAGES
def test_roles_are_bound_to_the_one_account(page: Path) -> None:
    found = documents(page)
    (account,) = [each["metadata"] for each in found if each["kind"] == "ServiceAccount"]
    bindings = [each for each in found if each["kind"].endswith("RoleBinding")]
    roles = [each for each in found if each["kind"] in ROLES]
    place = "namespace"
    assert sorted((each["roleRef"]["kind"], each["metadata"].get(place, "")) for each in bindings) == sorted(
        (each["kind"], each["metadata"].get(place, "")) for each in roles
    )
    for each in bindings:
        assert each["roleRef"]["name"] == each["metadata"]["name"] == account["name"]
        assert each["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], place: account[place]}]


def test_with_all_of_them_nothing_is_missing() -> None:
    found = examined(all_rights())
    assert all(found.features[name].present for name in (*OF_FEATURES, "disruptive"))
    assert (found.facts["proxy-mode"], found.facts["service-proxy"]) == ("iptables", "kube-proxy")


@pytest.mark.parametrize("taken", RULES, ids=named)
def test_a_rule_that_is_taken_away_is_reported(taken: tuple[str, dict[str, Any]]) -> None:
    lost = set(granted([taken]))
    left = set(granted([rule for rule in RULES if rule is not taken]))
    missing = lost & set(needed(suite_names(), disruptive=True))
    if missing:
        with pytest.raises(PreflightError) as refused:
            examined(left)
        assert "docs/rbac.yaml" in refused.value.hint
        assert all(str(right) in refused.value.sentence for right in missing)
        return
    found = examined(left)
    unsupported = {name for name, those in OF_FEATURES.items() if lost & set(those)}
    assert {name for name in OF_FEATURES if not found.features[name].present} == unsupported
    assert unsupported or lost <= set(WELCOME)
    assert all("the account may not" in found.features[name].why for name in unsupported)


@pytest.mark.parametrize("lost", sorted(all_rights(), key=str), ids=str)
def test_no_single_right_that_is_missing_is_stumbled_over(lost: Right) -> None:
    rights = all_rights() - {lost}
    if lost in needed(suite_names(), disruptive=True):
        with pytest.raises(PreflightError, match=re.escape(str(lost))):
            examined(rights)
    else:
        examined(rights)


@pytest.mark.parametrize("lost", sorted(OF_DISRUPTIONS, key=str), ids=str)
def test_what_only_disruptions_need_is_asked_for_with_them_only(lost: Right) -> None:
    found = examined(all_rights() - {lost}, disruptive=False)
    assert not found.features["disruptive"].present


def test_a_suite_asks_for_its_own_rights_only() -> None:
    cluster = cast(Cluster, Guarded(needed(["source_ip"], disruptive=False)))
    settings = Settings(context="home", outside="none")
    assert examine(cluster, settings, ["source_ip"]).facts["kubernetes"] == "v1.36.0"
    with pytest.raises(PreflightError, match="patch pods/status"):
        examine(cluster, settings, ["health_checks"])


def test_checks_that_write_a_status_need_the_right_to() -> None:
    checks = {check.id for check in all_checks() if "rights.services-status" in check.features}
    assert "api.ip-mode.vip" in checks
    assert "api.policy.nodeport.local" not in checks


def test_only_what_profiles_say_needs_packets() -> None:
    needing = [check for check in all_checks() if "packets" in check.features]
    told = re.compile(r"healthcheck\.profile\.|convergence\..*\.threshold$")
    assert all(told.match(check.id) for check in needing)
    assert not any(check.level is Level.CORE for check in needing)
