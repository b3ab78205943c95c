"""The first Kubernetes that a check can run of: what follows from a check, and what an old server is asked."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from esipp.app import list as listing
from esipp.app.cli import main
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.catalog import all_checks, checks_of, suite_names, versions_of
from esipp.checks.check import KUBERNETES, Check, Feature, Level, Status, is_about, missing_features, say_missing
from esipp.checks.explain import explain_check
from esipp.checks.path import OnPath
from esipp.checks.reference import Reference
from esipp.checks.versions import (
    OF_FEATURES,
    OF_PATHS,
    Need,
    check_age,
    dated,
    needs_kubernetes,
    read_version,
    version_features,
)
from esipp.cluster.dialect import REMARKS, dialect_of
from esipp.judging.frame import Decision, Known, give_verdict
from esipp.judging.topology import Topology
from esipp.preflight.preflight import left_out
from esipp.report.pages import checks_page
from esipp.report.terminal import by_reason
from esipp.scenarios.paths.evidence import Evidence
from tests.unit.test_plain import Plain
from tests.unit.verdicts import judge

CHECKS = {check.id: check for check in all_checks()}


@pytest.mark.parametrize(
    ("identity", "since"),
    [
        ("clusterip.tcp.ipv4.pod-on-other-node-to-clusterip", ""),
        ("loadbalancer.local.tcp.ipv4.outside-1-to-vip", ""),
        ("nodeport.cluster.tcp.ipv4.outside-1-to-bare-node", ""),
        ("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", "1.5"),
        ("loadbalancer.local.tcp.ipv6.outside-1-to-vip", "1.9"),
        ("nodeport.local.not-ready.tcp.ipv4.outside-1-to-endpoint-node", "1.12"),
        ("loadbalancer.local.tcp.ipv4.host-on-other-node-to-vip", "1.15"),
        ("clusterip.sctp.ipv4.pod-on-other-node-to-clusterip", "1.19"),
        ("nodeport.local.only-ipv4.tcp.ipv4.outside-1-to-endpoint-node", "1.21"),
        ("clusterip.itp-local.tcp.ipv4.pod-on-endpoint-node-to-clusterip", "1.22"),
        ("external-ips.unset.tcp.ipv4.outside-1-to-external-ip-of-endpoint-node", ""),
        ("external-ips.local.tcp.ipv4.outside-1-to-external-ip-of-endpoint-node", "1.29"),
        ("loadbalancer.reference-proxy.local.several-ports.tcp.ipv4.outside-1-to-vip", "1.22"),
        ("nodeport.cluster.prefer-close.tcp.ipv4.outside-1-to-bare-node", "1.31"),
        ("loadbalancer.reference-proxy.local.several-ports.tcp.ipv4.pod-on-endpoint-node-to-vip", "1.30"),
        ("healthcheck.one-pod.ipv4.outside-1-to-endpoint-node.status", ""),
        ("healthcheck.one-pod.ipv4.outside-1-to-endpoint-node.document", "1.7"),
        ("healthcheck.one-pod.ipv6.outside-1-to-endpoint-node.status", "1.9"),
        ("healthcheck.unready-pod.ipv4.outside-1-to-endpoint-node.status", "1.12"),
        ("healthcheck.one-pod.ipv4.outside-1-to-endpoint-node.proxy", "1.27"),
        ("healthcheck.one-pod.ipv4.outside-1-to-endpoint-node.weight", "1.28"),
        # 1.28 and 1.29 have KubeProxyDrainingTerminatingNodes, off by default
        ("changes.unwanted-node.endpoint-node.proxy-healthz.ipv4.status", "1.30"),
        ("healthcheck.terminating.serves.ipv4.endpoint-node", "1.26"),
        ("healthcheck.lifecycle.allocated", ""),
        ("healthcheck.lifecycle.kept-on-apply", "1.16"),
        ("convergence.default.ipv4.steers", "1.21"),
        ("convergence.reference-ecmp.ipv4.steers", "1.22"),
        ("convergence.default.ipv4.no-loss-on-graceful-deletion", "1.26"),
    ],
)
def test_it_follows_from_what_a_check_uses(identity: str, since: str) -> None:
    check = CHECKS[identity]
    assert check.since == since
    assert {name for name in check.features if name.startswith(KUBERNETES)} == (
        {f"{KUBERNETES}{since}"} if since else set()
    )
    assert bool(check.since_why) is bool(since)


def test_every_rule_is_of_use_and_has_a_reference() -> None:
    """A rule that fits no check is a slip of the pen, or of a check's name."""
    bare = [replace(check, since="", since_why=None) for check in CHECKS.values()]
    paths = {path for check in bare for path in check.subject.paths}
    for uses, need in OF_PATHS:
        assert any(uses(path) for path in paths), need
    for name, need in OF_FEATURES:
        assert any(name in check.features for check in bare), need
    of_checks = [(suite, wanted, need) for suite in suite_names() for wanted, need in versions_of(suite)]
    for suite, wanted, need in of_checks:
        rules = ((wanted, need),)
        assert any(needs_kubernetes(check, rules) for check in bare if check.suite == suite), need
        assert any(_fits(check, wanted) for check in bare if check.suite == suite), wanted
    for need in (*(each for _, each in (*OF_PATHS, *OF_FEATURES)), *(each for *_, each in of_checks)):
        assert need.number >= (1, 5)
        assert need.because


def _fits(check: Check, wanted: object) -> bool:
    assert isinstance(wanted, dict)
    return wanted.items() <= check.subject.traits.items()


def test_a_check_can_say_a_later_version_and_no_earlier_one() -> None:
    check = CHECKS["nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"]
    assert dated(replace(check, since="1.30", since_why=Reference("KEP-1860"))).since == "1.30"
    assert dated(replace(check, since="1.4")).since == "1.5"
    assert dated(dated(check)) == dated(check)


@pytest.mark.parametrize("slip", ["1", "v1.30", "1.30.2", "KEP-1860", "1.x", "1.030"])
def test_a_slip_in_a_checks_version_is_an_error(slip: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        dated(Plain(id="a.b", since=slip))


def test_what_the_tests_are_given_is_what_is_listed() -> None:
    assert [check for name in suite_names() for check in checks_of(name)] == list(CHECKS.values())


# ------------------------------------------------------------------------------------------------------ on a cluster
DATED = dated(Plain(id="a.b", since="1.28", since_why=Reference("KEP-1")))


@pytest.mark.parametrize(
    ("server", "present"),
    [
        ("v1.26.3", False),
        ("v1.27.99-gke.0", False),
        ("v1.28.0", True),
        ("v1.28.3+k3s1", True),
        ("v1.36.0", True),
        ("v2.0", True),
        ("mine", True),
    ],
)
def test_the_servers_version_decides(server: str, present: bool) -> None:
    features = version_features(server, [DATED])
    assert {name: feature.present for name, feature in features.items()} == {"kubernetes.1.28": present}
    assert not features["kubernetes.1.28"].ours, "it is the cluster that lacks it"


def never() -> Decision:
    raise AssertionError("looked at")


def test_the_reason_names_version_reference_and_server() -> None:
    verdict = give_verdict(DATED, Known({}, version_features("v1.26.3", [DATED])), never)
    assert (verdict.status, verdict.left_out) == (Status.UNSUPPORTED, False)
    assert verdict.reason == "needs Kubernetes 1.28 (KEP-1): the server is 1.26.3"
    (reason,) = by_reason([DATED], {DATED.id: verdict})
    assert reason.words == "not tested, 1 check (1 core): needs Kubernetes 1.28 (KEP-1): the server is 1.26.3"
    other = {**version_features("v1.26.3", [DATED]), "family.ipv6": Feature(False, "no node has it")}
    two = replace(DATED, features=DATED.features | {"family.ipv6"})
    assert say_missing(two, missing_features(two, other)).startswith(
        "needs family.ipv6: no node has it; Kubernetes 1.28"
    )


def test_paths_hear_so_too() -> None:
    path_check = CHECKS["external-ips.local.tcp.ipv4.outside-1-to-external-ip-of-endpoint-node"]
    assert is_about(path_check, OnPath)
    features = {name: Feature(True, "") for name in path_check.features} | version_features("v1.28.1", [path_check])
    verdict = judge(path_check, Evidence(observations={}, topology=Topology(), features=features, samples=1))
    assert verdict.status is Status.UNSUPPORTED
    assert verdict.reason.startswith("needs Kubernetes 1.29 (kubernetes/kubernetes#119150")
    assert verdict.reason.endswith("): the server is 1.28.1")


def test_nothing_is_unsupported_for_its_age_on_a_server_of_today() -> None:
    assert all(feature.present for feature in version_features("v1.36.3", CHECKS.values()).values())


def test_a_server_without_any_form_is_refused() -> None:
    check_age((1, 4))
    with pytest.raises(PreflightError, match="cannot preserve") as refused:
        check_age((1, 3))
    assert refused.value.exit_code is ExitCode.USAGE


def test_no_version_is_left_out_by_hand() -> None:
    with pytest.raises(PreflightError, match="cannot leave out a version") as refused:
        left_out(["kubernetes.1.28"], {})
    assert refused.value.hint.startswith("'esipp list --kubernetes 1.28' ")
    with pytest.raises(PreflightError, match="no such feature"):
        left_out(["sctp"], {})
    assert left_out(["sctp"], {"sctp": Feature(True, "")})["sctp"].ours


# -------------------------------------------------------------------------------------------------------- in words
def asked(version: str) -> set[str]:
    features = version_features(version, CHECKS.values())
    return {check.id for check in CHECKS.values() if all(features[n].present for n in check.features if n in features)}


def test_newer_servers_are_asked_more() -> None:
    versions = ["1.4", "1.5", "1.6", "1.7", "1.9", "1.12", "1.16", "1.21", "1.22", "1.26", "1.28", "1.29", "1.36"]
    sets = [asked(version) for version in versions]
    assert all(older <= newer for older, newer in pairwise(sets))
    assert sets[-1] == set(CHECKS)
    assert asked("v1.5.8") == asked("1.5") == asked("1.6.4+coreos.0")
    core = [check for check in CHECKS.values() if check.id in sets[1] and check.level is Level.CORE]
    assert {"source_ip", "health_checks"} <= {check.suite for check in core}, "1.5 is asked what the issue is about"


def test_the_list_for_an_old_server() -> None:
    checks = list(CHECKS.values())
    first, *lines = listing.text_for("1.5", checks)
    chosen = asked("1.5")
    some = len(chosen)
    assert first.startswith("Kubernetes 1.5, API dialect beta annotations (service.beta.kubernetes.io/external-traffic")
    assert first.endswith(f": {some} of {len(checks)} checks need nothing newer")
    middle = lines.index("")
    assert [line.strip() for line in lines[:middle]] == list(dialect_of("1.5").remarks)
    end = lines.index("", middle + 1)
    assert lines[middle + 1 : end] == list(listing.as_text([check for check in checks if check.id in chosen]))
    assert lines[end + 1] == f"{len(checks) - some} checks would be unsupported:"
    counts = [line.split() for line in lines[end + 2 :]]
    assert sum(int(words[0]) for words in counts) == len(checks) - some
    assert [words[1:3] for words in counts] == [["need", "Kubernetes"]] * len(counts)
    ages = [read_version(words[3]) or (0, 0) for words in counts]
    assert ages == sorted(ages)


def test_the_list_for_a_server_of_today_has_nothing_to_add() -> None:
    checks = list(CHECKS.values())
    first, empty, *lines = listing.text_for("v1.36.3", checks)
    assert first.startswith("Kubernetes 1.36.3, API dialect fields ")
    assert (empty, lines) == ("", list(listing.as_text(checks)))


def test_a_long_id_stands_apart_from_what_is_expected() -> None:
    assert [line for line in listing.as_text(list(CHECKS.values())) if line.split()[1] not in CHECKS] == []


def test_json_tells_why_not() -> None:
    check = CHECKS["healthcheck.one-pod.ipv4.outside-1-to-endpoint-node.weight"]
    (line,) = listing.json_for("1.7.3", [check])
    data = json.loads(line)
    assert data["since"] == "1.28"
    assert data["unsupported"].startswith("needs Kubernetes 1.28 (kubernetes/kubernetes#118999")
    assert data["unsupported"].endswith(": the server is 1.7.3")
    assert data["dialect"].startswith("fields")


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--kubernetes", "1.5"], 0, "API dialect beta annotations"),
        (["--kubernetes", "v1.4.12", "healthcheck.lifecycle"], 0, "API dialect alpha annotations"),
        (["--kubernetes", "1.7", "--format", "json"], 0, '"unsupported": null'),
        (["--kubernetes", "1.3"], 4, "cannot preserve the client's source in any form"),
        (["--kubernetes", "soon"], 4, "'soon' is not a Kubernetes version"),
        (["--kubernetes", ""], 4, "'' is not a Kubernetes version"),
        (["--kubernetes", "1.5", "--format", "markdown"], 4, "cannot be combined with --kubernetes"),
        (["--kubernetes", "1.5", "no-such-row"], 4, "No check matches"),
        (["--kubernetes"], 4, "expected one argument"),
    ],
)
def test_the_command(arguments: list[str], code: int, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        ended = main(["list", *arguments])
    except SystemExit as left:  # argparse
        ended = int(left.code or 0)
    said = capsys.readouterr()
    assert ended == code
    assert expected in (said.err if code else said.out)
    assert not (code and said.out)


@pytest.mark.parametrize("bad", ["", "x", "1", "v1", "1.", "latest", "1.x", "-1.5", "1,5"])
def test_what_is_no_version(bad: str) -> None:
    with pytest.raises(PreflightError, match="is not a Kubernetes version"):
        list(listing.text_for(bad, []))


def test_explain_tells_it_and_the_page_does_not_grow() -> None:
    text = explain_check(CHECKS["external-ips.local.tcp.ipv4.outside-1-to-external-ip-of-endpoint-node"])
    assert "since       Kubernetes 1.29 (kubernetes/kubernetes#119150" in text
    assert KUBERNETES not in text.partition("needs ")[2]
    assert "since " not in explain_check(CHECKS["loadbalancer.local.tcp.ipv4.outside-1-to-vip"])
    bare = [replace(check, since="", since_why=None) for check in CHECKS.values()]
    assert checks_page(list(CHECKS.values())) == checks_page(bare)


def test_remarks_are_reported_until_they_no_longer_hold() -> None:
    for before, text in REMARKS:
        older, newer = f"1.{before[1] - 1}", f"1.{before[1]}"
        assert text in dialect_of(older).remarks
        assert text not in dialect_of(newer).remarks


def test_needs_are_compared_as_numbers() -> None:
    needs: list[Callable[[], Need]] = [lambda: Need("1.9", ""), lambda: Need("1.10", "")]
    assert max((make() for make in needs), key=lambda need: need.number).since == "1.10"


@pytest.mark.parametrize("server", ["v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3"])
def test_every_check_can_be_asked_on_the_minors_that_have_a_lane(server: str) -> None:
    features = version_features(server, CHECKS.values())
    assert [name for name, feature in features.items() if not feature.present] == []
    spoken = dialect_of(server)
    assert (spoken.writes, spoken.reads, spoken.remarks) == (None, (), ())
    service = {"spec": {"externalTrafficPolicy": "Local", "loadBalancerClass": "esipp.dev/none"}}
    assert spoken.out("POST", "/api/v1/namespaces/a/services", service) is service
    assert spoken.back("/api/v1/namespaces/a/services/b", service) is service
