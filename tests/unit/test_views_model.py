"""One form for all views: which node a target is, and the share of those that are healthy."""

import pytest

from esipp.judging.health_view import Asked, Member, Places, State, Unavailable, View, Why
from tests.unit.views_world import AZURE, GCE, KIND, OPENSTACK, places


def view(*members: tuple[str | None, State]) -> View:
    result = (Member(f"target {n}", node, state, state.value) for n, (node, state) in enumerate(members))
    return View("made up", "lb", 1.0, 2.0, tuple(result))


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        ("10.132.0.2", "gke-shop-pool-2"),
        ("::ffff:10.132.0.2", "gke-shop-pool-2"),
        ("shop-1234/europe-west1-c/gke-shop-pool-2", "gke-shop-pool-2"),
        ("another-project/europe-west1-c/gke-shop-pool-2", None),
        ("GKE-shop-pool-2", "gke-shop-pool-2"),
        ("pool-2", None),
        ("2", None),
        ("10.132.0.99", None),
        ("", None),
    ],
)
def test_a_target_is_a_node_by_its_address_id_or_name(hint: str, found: str | None) -> None:
    assert places(GCE).find(hint) == found


def test_the_first_hint_that_fits_counts() -> None:
    assert places(KIND).find(None, "nobody", "10.0.0.3", "worker") == "worker3"
    assert places(OPENSTACK).find("0d9e-2") == "node-2"
    assert places(AZURE).find("virtualMachines/1") == AZURE[1].name


def test_where_pods_are_is_asked_once_a_view_and_only_if_needed() -> None:
    asked: list[int] = []

    def pods() -> dict[str, str]:
        asked.append(1)
        return {"10.244.0.7": "worker2", "fd00::7": "worker2"}

    known = Places(KIND, pods)
    assert known.find("10.0.0.1") == "worker"
    assert asked == []
    assert [known.find(each) for each in ("10.244.0.7", "fd00:0:0::7", "10.244.0.8")] == ["worker2", "worker2", None]
    assert len(asked) == 1
    known.anew()
    known.find("10.244.0.7")
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        ((State.HEALTHY, State.HEALTHY), State.HEALTHY),
        ((State.HEALTHY, State.UNKNOWN), State.UNKNOWN),
        ((State.UNKNOWN, State.UNHEALTHY), State.UNHEALTHY),
        ((State.UNHEALTHY, State.HEALTHY), State.UNHEALTHY),
    ],
)
def test_a_node_that_is_several_targets_is_the_worst_of_them(states: tuple[State, ...], worst: State) -> None:
    assert view(*(("a", each) for each in states)).states == {"a": worst}


def test_who_is_no_target_is_not_healthy_and_who_is_no_node_does_not_count() -> None:
    result = view(("a", State.HEALTHY), ("b", State.UNKNOWN), (None, State.HEALTHY))
    assert str(result.share("abcd")) == "1 of 4 (25 %)"
    assert result.share([]).percent == 0.0
    assert result.strangers == ("target 2",)


def test_a_service_is_read_from_the_apis_json() -> None:
    service = {
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"ports": [{"port": 80, "nodePort": 31080}, {"port": 443}]},
        "status": {"loadBalancer": {"ingress": [{"hostname": "LB.example.com."}, {"ip": "192.0.2.1"}]}},
    }
    read = Asked.of(service)
    assert read == Asked("shop/web", ("192.0.2.1",), ("lb.example.com",), frozenset({80, 443}), frozenset({31080}))
    assert read.has("192.0.2.1")
    assert not read.has("not an address")
    bare = Asked.of({"metadata": {"name": "web"}})
    with pytest.raises(Unavailable) as raised:
        bare.need_address()
    assert raised.value.why is Why.NOT_FOUND
