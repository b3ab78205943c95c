"""Azure's view, from recorded-shape answers of az; and what an article on AKS reads in the portal."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from esipp.judging.health_view import State, Unavailable, Why
from esipp.loadbalancers.views.azure import MOST_SERIES, TOOL, AzureView
from tests.unit.views_world import AZURE, Fake, Given, asked, names, places, recorded, refused

VIP = "203.0.113.10"


@pytest.fixture
def az(tmp_path: Path) -> Fake:
    fake = Fake(tmp_path, "az").when("network lb list", recorded("az-balancers"))
    return fake.when("network public-ip list", recorded("az-public-ips"))


def view(fake: Fake) -> AzureView:
    return AzureView(places(AZURE), fake.cli(TOOL))


def test_as_the_article_says_it_is_all_under_cluster_and_the_share_with_endpoints_under_local(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-cluster"), recorded("az-metric-local"))
    azure = view(az)
    assert azure.ask(asked(VIP)).share(names(AZURE)).percent == 100.0
    local = azure.ask(asked(VIP))
    assert str(local.share(names(AZURE))) == "1 of 3 (33 %)"
    assert local.healthy == {AZURE[0].name}
    assert [each.word for each in local.members] == [f"DipAvailability {n} %" for n in (100, 0, 0)]


def test_with_one_pod_on_two_nodes_it_is_the_articles_fifty_per_cent(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-local"))
    assert view(az).ask(asked(VIP)).share(names(AZURE)[:2]).percent == 50.0


def test_a_figure_is_as_old_as_it_is(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-local"))
    at = view(az).ask(asked(VIP)).members[0].at
    assert at is not None
    assert datetime.fromtimestamp(at, UTC).isoformat() == "2026-03-01T10:33:00+00:00"


def test_the_metric_is_asked_for_our_frontend_and_for_more_than_ten_nodes(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-cluster"))
    result = view(az).ask(asked(VIP))
    said = " ".join(az.asked[-1])
    assert "FrontendIPAddress eq '203.0.113.10' and FrontendPort eq '*' and BackendIPAddress eq '*'" in said
    assert f"--top {MOST_SERIES} " in said
    assert "/loadBalancers/kubernetes --metric DipAvailability --interval PT1M --aggregation Average" in said
    assert result.notes == ("rule a-local-TCP-80: probe Http 32456/healthz every 5 s, 2 in a row",)


def test_it_is_looked_for_once_in_the_nodes_resource_group(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-cluster"))
    azure = view(az)
    azure.ask(asked(VIP))
    assert azure.ask(asked(VIP)).balancer == "kubernetes"
    assert az.times("network lb list") == az.times("network public-ip list") == 1
    scope = ["--subscription", "00000000-1111-2222-3333-444444444444", "--resource-group", "mc_shop_shop_westeurope"]
    assert az.asked[0][3:7] == scope


def test_older_spellings_are_read(az: Fake) -> None:
    az.when("network lb list", recorded("az-balancers-older")).when("monitor metrics list", recorded("az-metric-local"))
    result = view(az).ask(asked(VIP))
    assert result.healthy == {AZURE[0].name}
    assert result.notes[0].endswith("every 5 s, 2 in a row")


def test_an_internal_one_is_found_by_its_own_address(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-cluster"))
    assert view(az).ask(asked("10.224.0.100")).balancer == "kubernetes-internal"
    assert "FrontendIPAddress eq '10.224.0.100'" in " ".join(az.asked[-1])


def test_in_between_and_without_figures_nobody_knows_and_other_ports_do_not_count(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-between"))
    result = view(az).ask(asked(VIP))
    assert list(result.states.values()) == [State.UNKNOWN, State.UNKNOWN, State.UNHEALTHY]
    assert [each.word for each in result.members] == ["DipAvailability 58.3 %", "no figure", "DipAvailability 0 %"]


def test_no_series_is_a_view_without_members(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-none"))
    result = view(az).ask(asked(VIP))
    assert result.members == ()
    assert "no targets" in result.notes[-1]


def test_what_the_metric_itself_says_is_reported(az: Fake) -> None:
    az.when("monitor metrics list", recorded("az-metric-error"))
    with pytest.raises(Unavailable, match="Azure Monitor says Throttled: too many") as raised:
        view(az).ask(asked(VIP))
    assert raised.value.why is Why.THROTTLED


def test_an_address_of_nobody_is_reported(az: Fake) -> None:
    with pytest.raises(Unavailable, match=r"192\.0\.2\.7 was found in the resource group mc_shop") as raised:
        view(az).ask(asked("192.0.2.7"))
    assert raised.value.why is Why.NOT_FOUND


def test_a_login_that_is_over_is_reported_at_once(az: Fake) -> None:
    az.when("network lb list", refused("ERROR: AADSTS700082: The refresh token has expired due to inactivity."))
    with pytest.raises(Unavailable) as raised:
        view(az).ask(asked(VIP))
    assert raised.value.why is Why.LOGIN
    assert raised.value.hint == "az login."
    assert len(az.asked) == 1


@pytest.mark.parametrize(
    "said",
    ["[]", "{}", '{"value": 1}', '{"value": [{"timeseries": [{"metadatavalues": [{}]}]}]}',
     '{"value": [{"timeseries": [{"metadatavalues": [{"name": {"value": "BackendIPAddress"}, "value": "10.224.0.4"}], '
     '"data": [{"average": 100.0, "timeStamp": "yesterday"}]}]}]}'],
)  # fmt: skip
def test_another_form_is_reported_and_is_no_crash(az: Fake, said: str) -> None:
    az.when("monitor metrics list", Given(said))
    with pytest.raises(Unavailable) as raised:
        view(az).ask(asked(VIP))
    assert raised.value.why is Why.GARBLED
