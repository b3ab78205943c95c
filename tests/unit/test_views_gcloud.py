"""Google Cloud's view, from recorded-shape answers of gcloud."""

from pathlib import Path

import pytest

from esipp.judging.health_view import Places, State, Unavailable, Why
from esipp.loadbalancers.views.gcloud import TOOL, GoogleView
from tests.unit.views_world import GCE, Fake, Given, asked, names, places, recorded, refused

LEGACY, RBS, INGRESS = "198.51.100.10", "198.51.100.11", "198.51.100.12"


@pytest.fixture
def gcloud(tmp_path: Path) -> Fake:
    return Fake(tmp_path, "gcloud").when("compute forwarding-rules list", recorded("gcloud-rules"))


def view(fake: Fake, of: Places | None = None) -> GoogleView:
    return GoogleView(of or places(GCE), fake.cli(TOOL))


def test_under_cluster_all_nodes_are_healthy_and_under_local_those_with_endpoints(gcloud: Fake) -> None:
    gcloud.when(
        "compute backend-services get-health", recorded("gcloud-backend-cluster"), recorded("gcloud-backend-local")
    )
    google = view(gcloud)
    before, after = google.ask(asked(RBS)), google.ask(asked(RBS))
    assert str(before.share(names(GCE))) == "3 of 3 (100 %)"
    assert str(after.share(names(GCE))) == "1 of 3 (33 %)"
    assert after.healthy == {"gke-shop-pool-1"}
    assert [(each.word, each.reason) for each in after.members] == [
        ("HEALTHY", "weight 2"), ("UNHEALTHY", "UNAVAILABLE_WEIGHT"), ("UNHEALTHY", ""),
    ]  # fmt: skip
    assert before.asked <= before.answered <= after.asked


def test_the_backend_service_is_found_once_and_in_the_nodes_project(gcloud: Fake) -> None:
    gcloud.when("compute backend-services get-health", recorded("gcloud-backend-cluster"))
    google = view(gcloud)
    google.ask(asked(RBS))
    assert google.ask(asked(RBS)).balancer == "k8s2-rbs"
    assert gcloud.times("compute forwarding-rules list") == 1
    ending = ["--project=shop-1234", "--format=json", "--quiet"]
    assert gcloud.asked[-1] == [
        "compute",
        "backend-services",
        "get-health",
        "k8s2-rbs",
        "--region=europe-west1",
        *ending,
    ]


def test_an_ipv6_rule_is_found_by_its_network(gcloud: Fake) -> None:
    gcloud.when("compute backend-services get-health", recorded("gcloud-backend-cluster"))
    assert len(view(gcloud).ask(asked("2001:db8:1:2:0:0:0:0")).healthy) == 3


def test_instances_of_a_target_pool_are_found_by_their_names_as_the_address_is_the_vip(gcloud: Fake) -> None:
    gcloud.when("compute target-pools get-health a-legacy", recorded("gcloud-pool-local"))
    assert view(gcloud).ask(asked(LEGACY)).states == dict(
        zip(names(GCE), (State.HEALTHY, State.UNHEALTHY, State.UNHEALTHY), strict=True)
    )


def test_endpoints_of_another_rule_are_not_ours_and_who_is_in_no_group_is_not_healthy(gcloud: Fake) -> None:
    gcloud.when("compute backend-services get-health", recorded("gcloud-backend-neg-local"))
    result = view(gcloud).ask(asked(RBS))
    assert result.states == {"gke-shop-pool-1": State.HEALTHY}
    assert str(result.share(names(GCE))) == "1 of 3 (33 %)"


def test_no_health_at_all_is_a_view_without_members(gcloud: Fake) -> None:
    gcloud.when("compute backend-services get-health", recorded("gcloud-backend-empty"))
    result = view(gcloud).ask(asked(RBS))
    assert result.members == ()
    assert "no targets" in result.notes[0]


@pytest.mark.parametrize(
    ("address", "why"), [("192.0.2.99", Why.NOT_FOUND), (INGRESS, Why.UNSUPPORTED), ("", Why.NOT_FOUND)]
)
def test_what_has_no_backend_service_is_reported(gcloud: Fake, address: str, why: Why) -> None:
    with pytest.raises(Unavailable) as raised:
        view(gcloud).ask(asked(address))
    assert raised.value.why is why
    assert raised.value.hint


def test_instances_of_nobody_we_know_are_strangers(gcloud: Fake) -> None:
    gcloud.when("compute backend-services get-health", recorded("gcloud-backend-cluster"))
    result = view(gcloud, places(GCE[:1])).ask(asked(RBS))
    assert result.strangers == ("gke-shop-pool-2", "gke-shop-pool-3")
    assert result.healthy == {"gke-shop-pool-1"}


def test_pods_in_a_neg_are_their_nodes(gcloud: Fake) -> None:
    status = '{"healthStatus": [{"healthState": "HEALTHY", "ipAddress": "10.8.0.6", "port": 80}]}'
    gcloud.when("compute backend-services get-health", Given(f'[{{"backend": "x", "status": {status}}}]'))
    assert view(gcloud, places(GCE, {"10.8.0.6": "gke-shop-pool-2"})).ask(asked(RBS)).healthy == {"gke-shop-pool-2"}


def test_a_backend_service_that_is_gone_is_looked_for_again(gcloud: Fake) -> None:
    gone = refused("ERROR: (gcloud.compute.backend-services.get-health) The resource 'x' was not found")
    gcloud.when("compute backend-services get-health", gone, recorded("gcloud-backend-cluster"))
    google = view(gcloud)
    with pytest.raises(Unavailable):
        google.ask(asked(RBS))
    assert len(google.ask(asked(RBS)).healthy) == 3
    assert gcloud.times("compute forwarding-rules list") == 2


@pytest.mark.parametrize(
    "said", ['{"a": 1}', '["text"]', "null", '[{"status": {"healthStatus": [7]}}]', '[{"status": 5}]']
)
def test_another_form_is_reported_and_is_no_crash(gcloud: Fake, said: str) -> None:
    gcloud.when("compute backend-services get-health", Given(said))
    with pytest.raises(Unavailable) as raised:
        view(gcloud).ask(asked(RBS))
    assert raised.value.why is Why.GARBLED
