"""AWS' view, from recorded-shape answers of aws."""

from pathlib import Path

import pytest

from esipp.judging.health_view import State, Unavailable, Why
from esipp.loadbalancers.views.aws import FAIL_OPEN, TOOL, AmazonView
from tests.unit.views_world import AWS, Fake, Given, asked, names, places, recorded, refused

NLB = "k8s-shop-web-1a2b3c4d5e-bbbb.elb.eu-west-1.amazonaws.com"
CLB = "a1b2c3d4e5f60718293a4b5c6d7e8f90-1234567890.eu-west-1.elb.amazonaws.com"


@pytest.fixture
def aws(tmp_path: Path) -> Fake:
    fake = Fake(tmp_path, "aws")
    fake.when("elbv2 describe-load-balancers", recorded("aws-balancers-1"))
    fake.when("elbv2 describe-load-balancers", recorded("aws-balancers-2"), also=["--marker", "page-2"])
    fake.when("elbv2 describe-target-groups", recorded("aws-groups"))
    return fake.when("elb describe-load-balancers", recorded("aws-classic"))


def view(fake: Fake, pods: dict[str, str] | None = None) -> AmazonView:
    return AmazonView(places(AWS, pods), fake.cli(TOOL))


def test_under_cluster_all_nodes_are_healthy_and_under_local_those_with_endpoints(aws: Fake) -> None:
    aws.when("elbv2 describe-target-health", recorded("aws-health-cluster"), recorded("aws-health-local"))
    amazon = view(aws)
    before, after = amazon.ask(asked(hostname=NLB)), amazon.ask(asked(hostname=NLB))
    assert str(before.share(names(AWS))) == "3 of 3 (100 %)"
    assert str(after.share(names(AWS))) == "1 of 3 (33 %)"
    assert after.healthy == {AWS[0].name}
    assert after.members[1].reason == "Target.FailedHealthChecks: Health checks failed"
    assert after.notes == ()


def test_it_is_found_on_a_later_page_in_the_region_of_its_name_once(aws: Fake) -> None:
    aws.when("elbv2 describe-target-health", recorded("aws-health-cluster"))
    amazon = view(aws)
    amazon.ask(asked(hostname=NLB))
    assert amazon.ask(asked(hostname=NLB)).balancer == "k8s-shop-web-1a2b3c4d5e"
    assert aws.times("elbv2 describe-load-balancers") == 2
    assert all(argv[argv.index("--region") + 1] == "eu-west-1" for argv in aws.asked)
    assert aws.times("elb describe-load-balancers") == 0


def test_a_token_of_the_tool_itself_is_followed_as_well(aws: Fake) -> None:
    aws.when("elbv2 describe-load-balancers", recorded("aws-balancers-token"))
    aws.when("elbv2 describe-load-balancers", recorded("aws-balancers-2"), also=["--starting-token"])
    aws.when("elbv2 describe-target-health", recorded("aws-health-cluster"))
    assert len(view(aws).ask(asked(hostname=NLB)).healthy) == 3


def test_only_target_groups_at_our_node_ports_are_asked(aws: Fake) -> None:
    aws.when("elbv2 describe-target-health", recorded("aws-health-cluster"))
    view(aws).ask(asked(hostname=f"dualstack.{NLB}"))
    asked_of = [argv[argv.index("--target-group-arn") + 1] for argv in aws.asked if "--target-group-arn" in argv]
    assert [arn.split("/")[1] for arn in asked_of] == ["k8s-shop-web-http"]


def test_states_in_between_are_not_healthy_and_strangers_are_reported(aws: Fake) -> None:
    aws.when("elbv2 describe-target-health", recorded("aws-health-others"))
    found = view(aws).ask(asked(hostname=NLB))
    assert list(found.states.values()) == [State.UNKNOWN, State.UNHEALTHY, State.UNHEALTHY]
    assert [each.word for each in found.members] == ["initial", "draining", "unused", "unhealthy"]
    assert found.strangers == ("i-0ffffffffffffffff",)
    assert found.notes == (FAIL_OPEN,)


def test_pods_that_are_targets_are_their_nodes(aws: Fake) -> None:
    aws.when("elbv2 describe-target-groups", recorded("aws-groups-ip"))
    aws.when("elbv2 describe-target-health", recorded("aws-health-ip"))
    found = view(aws, {"10.0.64.17": AWS[1].name, "10.0.65.18": AWS[2].name}).ask(asked(hostname=NLB))
    assert found.states == {AWS[1].name: State.HEALTHY, AWS[2].name: State.UNHEALTHY}


def test_a_classic_one_is_asked_for_its_instances(aws: Fake) -> None:
    aws.when("elb describe-instance-health", recorded("aws-classic-health-local"))
    found = view(aws).ask(asked(hostname=CLB.upper().lower()))
    assert found.healthy == {AWS[0].name}
    assert [each.word for each in found.members] == ["InService", "OutOfService", "OutOfService"]
    assert found.members[0].reason == ""
    assert found.members[1].reason.startswith("Instance: ")
    assert [argv[:2] for argv in aws.asked] == [["elb", "describe-load-balancers"], ["elb", "describe-instance-health"]]


@pytest.mark.parametrize(
    ("hostname", "address", "why"),
    [
        ("nobody-1234.elb.eu-west-1.amazonaws.com", "", Why.NOT_FOUND),
        ("", "192.0.2.1", Why.UNSUPPORTED),
        ("", "", Why.NOT_FOUND),
    ],
)
def test_what_is_not_there_is_reported(aws: Fake, hostname: str, address: str, why: Why) -> None:
    with pytest.raises(Unavailable) as raised:
        view(aws).ask(asked(address, hostname))
    assert raised.value.why is why
    assert raised.value.hint


def test_no_target_group_yet_is_reported(aws: Fake) -> None:
    aws.when("elbv2 describe-target-groups", Given('{"TargetGroups": []}'))
    with pytest.raises(Unavailable, match="no target group"):
        view(aws).ask(asked(hostname=NLB))


def test_a_missing_right_names_those_that_are_needed(aws: Fake) -> None:
    no = "An error occurred (AccessDenied) when calling the DescribeTargetHealth operation: User is not authorized"
    aws.when("elbv2 describe-target-health", refused(no, 254))
    with pytest.raises(Unavailable) as raised:
        view(aws).ask(asked(hostname=NLB))
    assert raised.value.why is Why.RIGHTS
    assert "DescribeTargetHealth" in raised.value.hint


@pytest.mark.parametrize(
    "said", ["[]", "{}", '{"TargetHealthDescriptions": [{"Target": {}}]}', '{"TargetHealthDescriptions": 3}']
)
def test_another_form_is_reported_and_is_no_crash(aws: Fake, said: str) -> None:
    aws.when("elbv2 describe-target-health", Given(said))
    with pytest.raises(Unavailable) as raised:
        view(aws).ask(asked(hostname=NLB))
    assert raised.value.why is Why.GARBLED
