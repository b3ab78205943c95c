"""The headers in which the cluster's own load balancer reports clients: who speaks which, and by what annotation."""

from dataclasses import replace

import pytest

from esipp.base.customisation import Annotation, Customisation, On
from esipp.checks.check import Fact, Status
from esipp.checks.model import Claim
from esipp.loadbalancers.detection import Detected
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.loadbalancers.provider_annotations import header_features, headers_asked, headers_of, speaker
from esipp.testbed import manifests
from tests.unit.world import VIP, answer, by_id, header, verdict

PROFILES = {each.name: each for each in all_profiles()}
AT_AWS = "service.beta.kubernetes.io/aws-load-balancer-proxy-protocol"
V2 = "loadbalancer.local.reports-proxy-v2.tcp.ipv4.outside-1-to-vip"


def detected(name: str, *, named: bool = True) -> Detected:
    return Detected(Fact("kind", ""), (PROFILES[name],), named=named)


def annotated(key: str, value: str) -> Customisation:
    return Customisation(annotations=(Annotation(On.SERVICE, key, value),))


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        ("eks-nlb-ip-proxy-v2", {Claim.PROXY_V2: ((AT_AWS, "*"),)}),
        ("aws-clb-proxy", {Claim.PROXY_V1: ((AT_AWS, "*"),)}),
        ("octavia-amphora-proxy", {Claim.PROXY_V1: (("loadbalancer.openstack.org/proxy-protocol", "true"),)}),
        ("haproxy-proxy-v2", {Claim.PROXY_V2: ()}),
        ("reference-proxy-xff", {Claim.FORWARDED_FOR: ()}),
        ("azure-private-link", {}),
        ("aws-clb", {}),
        ("metallb-l2", {}),
    ],
)
def test_the_headers_of_a_profile(name: str, headers: dict[Claim, tuple[tuple[str, str], ...]]) -> None:
    assert headers_of(PROFILES[name]) == headers
    features = header_features(PROFILES[name], headers)
    assert {each for each, feature in features.items() if feature.present} == {
        f"load-balancer.reports.{each.value}" for each in headers
    }


def test_an_annotation_of_the_user_asks_a_variant_of_the_detected_load_balancer() -> None:
    clb = detected("aws-clb", named=False)
    assert headers_asked(clb, PROFILES.values(), Customisation()) == {}
    assert headers_asked(clb, PROFILES.values(), annotated(AT_AWS, "*")) == {Claim.PROXY_V1: ((AT_AWS, "*"),)}
    assert headers_asked(clb, PROFILES.values(), annotated(AT_AWS, "no")) == {}
    nlb = detected("eks-nlb-ip", named=False)
    assert set(headers_asked(nlb, PROFILES.values(), annotated(AT_AWS, "*"))) == {Claim.PROXY_V2}


def test_a_detected_load_balancer_counts_if_it_reported_itself() -> None:
    found = detected("reference-proxy-v2", named=False)
    assert headers_asked(found, PROFILES.values(), Customisation()) == {}
    itself = replace(found, itself=True)
    assert headers_asked(itself, PROFILES.values(), Customisation()) == {Claim.PROXY_V2: ()}
    assert speaker(itself) is PROFILES["reference-proxy-v2"]


def test_only_the_service_that_asks_for_a_header_gets_its_annotation() -> None:
    path = by_id(V2).subject.path
    assert path.service is not None
    made = manifests.service(path.object_name, [path], "run", headers=((AT_AWS, "*"),))
    assert made["metadata"]["annotations"] == {AT_AWS: "*"}
    assert "annotations" not in manifests.service(path.object_name, [path], "run")["metadata"]


@pytest.mark.parametrize(("address", "status"), [("", Status.FAIL), ("203.0.113.7", Status.FAIL)])
def test_a_load_balancer_that_reports_nobody_or_another_one_fails(address: str, status: Status) -> None:
    check = by_id(V2)
    path = check.subject.path
    said = verdict(check, answer(path, VIP[path.family], **header(Claim.PROXY_V2, address)))
    assert (said.status, f"the backend got {address or 'no address'} in proxy-v2" in said.reason) == (status, True)


def test_whose_address_the_connection_has_is_not_its_topic() -> None:
    check = by_id(V2)
    path = check.subject.path
    for seen in (VIP[path.family], "203.0.113.9"):
        assert verdict(check, answer(path, seen)).status is Status.PASS
