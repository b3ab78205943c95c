"""Clouds' tools are asked for what reads only, for a bounded time, and a sentence says why they do not answer."""

import ast
import inspect
import os
from pathlib import Path

import pytest

from esipp.judging.health_view import Unavailable, Why
from esipp.loadbalancers.views import CLOUDS, cli, provider_of, view_for
from esipp.loadbalancers.views.aws import TOOL as AWS_TOOL
from esipp.loadbalancers.views.azure import TOOL as AZURE_TOOL
from esipp.loadbalancers.views.cli import PAUSES, Cli, Tool
from esipp.loadbalancers.views.gcloud import TOOL as GCLOUD_TOOL
from esipp.loadbalancers.views.octavia import TOOL as OPENSTACK_TOOL
from tests.unit.views_world import AWS, AZURE, GCE, KIND, OPENSTACK, Fake, Given, is_gone, refused

TOOLS = (GCLOUD_TOOL, AWS_TOOL, AZURE_TOOL, OPENSTACK_TOOL)
TRY = ("elbv2", "describe-load-balancers")

READ_ONLY = {
    "gcloud compute forwarding-rules list",
    "gcloud compute backend-services get-health",
    "gcloud compute target-pools get-health",
    "aws elbv2 describe-load-balancers",
    "aws elbv2 describe-target-groups",
    "aws elbv2 describe-target-health",
    "aws elb describe-load-balancers",
    "aws elb describe-instance-health",
    "az network lb list",
    "az network public-ip list",
    "az monitor metrics list",
    "openstack loadbalancer list",
    "openstack loadbalancer show",
    "openstack loadbalancer status show",
    "openstack floating ip list",
}


def test_the_commands_are_these_and_no_others() -> None:
    assert {" ".join((tool.program, *words)) for tool in TOOLS for words in tool.reads} == READ_ONLY
    verbs = {words[-1].partition("-")[0] for tool in TOOLS for words in tool.reads}
    assert verbs == {"list", "show", "get", "describe"}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.program)
@pytest.mark.parametrize("verb", ["create", "delete", "update", "set", "add", "remove", "modify-target-group"])
def test_what_is_none_of_them_is_not_even_started(tool: Tool, verb: str, tmp_path: Path) -> None:
    fake = Fake(tmp_path, tool.program)
    words = next(iter(tool.reads))
    with pytest.raises(AssertionError, match="permitted commands"):
        fake.cli(tool).ask(*words[:-1], verb)
    assert fake.runs == []


def test_there_is_no_shell() -> None:
    calls = [each for each in ast.walk(ast.parse(inspect.getsource(cli))) if isinstance(each, ast.Call)]
    started = [each for each in calls if ast.unparse(each.func).startswith(("subprocess.", "os.system", "os.popen"))]
    assert [ast.unparse(each.func) for each in started] == ["subprocess.Popen"]
    assert all(keyword.arg != "shell" for each in started for keyword in each.keywords)


def test_the_environment_is_the_users_own_and_nothing_is_asked_back(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "aws").when("elbv2", Given("{}"))
    assert fake.cli(AWS_TOOL).ask(*TRY, "--region", "; rm -rf $HOME") == {}
    (run,) = fake.runs
    assert run["argv"] == [*TRY, "--region", "; rm -rf $HOME", "--output", "json"]
    assert run["environment"]["CLOUD_PROFILE"] == "the user's own"
    assert run["environment"]["AWS_PAGER"] == ""


def test_a_tool_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no 'az' on PATH") as raised:
        Cli(AZURE_TOOL, environment={"PATH": str(tmp_path)}).ask("network", "lb", "list")
    assert raised.value.why is Why.NO_TOOL
    assert "az login" in raised.value.hint
    assert raised.value.lasting


REFUSALS = [
    (GCLOUD_TOOL, "ERROR: (gcloud.compute.forwarding-rules.list) You do not currently have an active account selected.",
     Why.LOGIN),
    (GCLOUD_TOOL, "ERROR: (gcloud.compute) There was a problem refreshing your current auth tokens: ('invalid_grant: "
     "Bad Request', {'error': 'invalid_grant'})\nPlease run:\n\n  $ gcloud auth login", Why.LOGIN),
    (GCLOUD_TOOL, "ERROR: (gcloud.compute) Reauthentication failed. cannot prompt during non-interactive execution.",
     Why.LOGIN),
    (GCLOUD_TOOL, "ERROR: (gcloud.compute.backend-services.get-health) Could not fetch resource:\n - Required "
     "'compute.regionBackendServices.get' permission for 'projects/shop-1234/regions/europe-west1/backendServices/x'",
     Why.RIGHTS),
    (GCLOUD_TOOL, "ERROR: (gcloud.compute) HTTPError 403: Quota exceeded for quota metric 'Read requests' and limit "
     "'Read requests per minute' of service 'compute.googleapis.com'. reason: RATE_LIMIT_EXCEEDED", Why.THROTTLED),
    (GCLOUD_TOOL, "ERROR: (gcloud.compute.backend-services.get-health) Could not fetch resource:\n - The resource "
     "'projects/shop-1234/regions/europe-west1/backendServices/x' was not found", Why.NOT_FOUND),
    (AWS_TOOL, "Unable to locate credentials. You can configure credentials by running \"aws configure\".", Why.LOGIN),
    (AWS_TOOL, "An error occurred (ExpiredToken) when calling the DescribeLoadBalancers operation: The security token "
     "included in the request is expired", Why.LOGIN),
    (AWS_TOOL, "Error when retrieving token from sso: Token has expired and refresh failed", Why.LOGIN),
    (AWS_TOOL, "An error occurred (AccessDenied) when calling the DescribeTargetHealth operation: User: arn:aws:iam::"
     "123456789012:user/ci is not authorized to perform: elasticloadbalancing:DescribeTargetHealth", Why.RIGHTS),
    (AWS_TOOL, "An error occurred (Throttling) when calling the DescribeTargetHealth operation (reached max retries: "
     "2): Rate exceeded", Why.THROTTLED),
    (AWS_TOOL, "An error occurred (LoadBalancerNotFound) when calling the DescribeLoadBalancers operation: Load "
     "balancers '[x]' not found", Why.NOT_FOUND),
    (AZURE_TOOL, "ERROR: Please run 'az login' to setup account.", Why.LOGIN),
    (AZURE_TOOL, "ERROR: AADSTS700082: The refresh token has expired due to inactivity.", Why.LOGIN),
    (AZURE_TOOL, "ERROR: (AuthorizationFailed) The client 'ci' with object id 'x' does not have authorization to "
     "perform action 'Microsoft.Insights/metrics/read' over scope '/subscriptions/x' or the scope is invalid. If "
     "access was recently granted, please refresh your credentials.", Why.RIGHTS),
    (AZURE_TOOL, "ERROR: (ResourceRequestsThrottled) Number of requests for action 'microsoft.insights/metrics/read' "
     "exceeded the limit of '400' for time interval '00:05:00'. Please try again after '309' seconds.", Why.THROTTLED),
    (AZURE_TOOL, "ERROR: Operation returned an invalid status 'Too Many Requests'", Why.THROTTLED),
    (AZURE_TOOL, "ERROR: (TooManyRequests) The request is being throttled.", Why.THROTTLED),
    (AZURE_TOOL, "ERROR: (ResourceGroupNotFound) Resource group 'MC_x' could not be found.", Why.NOT_FOUND),
    (OPENSTACK_TOOL, "Missing value auth-url required for auth plugin password", Why.LOGIN),
    (OPENSTACK_TOOL, "The request you have made requires authentication. (HTTP 401) (Request-ID: req-1)", Why.LOGIN),
    (OPENSTACK_TOOL, "Policy does not allow this request to be performed. (HTTP 403) (Request-ID: req-1)", Why.RIGHTS),
    (OPENSTACK_TOOL, "Rate limit. (HTTP 429)", Why.THROTTLED),
    (OPENSTACK_TOOL, "openstack: 'loadbalancer list -f json' is not an openstack command. See 'openstack --help'.",
     Why.UNSUPPORTED),
    (OPENSTACK_TOOL, "public endpoint for load-balancer service in RegionOne region not found", Why.UNSUPPORTED),
    (OPENSTACK_TOOL, "segmentation fault", Why.FAILED),
    (OPENSTACK_TOOL, "server 10.4.29.1 of pool-429 broke", Why.FAILED),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "said", "why"), REFUSALS, ids=lambda each: getattr(each, "program", str(each)[:40]))
def test_why_it_does_not_answer_is_known_by_its_words(tool: Tool, said: str, why: Why, tmp_path: Path) -> None:
    words = next(iter(sorted(tool.reads)))
    fake = Fake(tmp_path, tool.program).when(words[0], refused(said))
    with pytest.raises(Unavailable) as raised:
        fake.cli(tool).ask(*words)
    assert raised.value.why is why
    assert " ".join(said.split())[:60] in raised.value.sentence
    assert "\n" not in raised.value.sentence
    assert raised.value.hint
    assert len(fake.asked) == (1 + len(PAUSES) if why is Why.THROTTLED else 1)


def test_what_is_too_much_is_asked_again_a_few_times_and_reported(tmp_path: Path) -> None:
    pauses: list[float] = []
    fake = Fake(tmp_path, "aws").when(
        "elbv2", refused("(Throttling): Rate exceeded"), refused("Rate exceeded"), Given("[1]")
    )
    client = fake.cli(AWS_TOOL, pauses)
    assert client.ask(*TRY) == [1]
    assert pauses == list(PAUSES[:2])
    assert client.throttled == 2


def test_it_is_given_up_after_the_last_pause(tmp_path: Path) -> None:
    pauses: list[float] = []
    fake = Fake(tmp_path, "aws").when("elbv2", refused("Rate exceeded"))
    with pytest.raises(Unavailable) as raised:
        fake.cli(AWS_TOOL, pauses).ask(*TRY)
    assert pauses == list(PAUSES)
    assert pauses == sorted(pauses)
    assert not raised.value.lasting


@pytest.mark.parametrize("said", ["", "not JSON at all", '{"cut": [1, 2', "<html>sign in</html>"])
def test_garbage_is_reported_as_such(said: str, tmp_path: Path) -> None:
    fake = Fake(tmp_path, "aws").when("elbv2", Given(said))
    with pytest.raises(Unavailable, match="did not answer in JSON") as raised:
        fake.cli(AWS_TOOL).ask(*TRY)
    assert raised.value.why is Why.GARBLED


def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "aws")
    result = tmp_path / "child"
    os.mkfifo(tmp_path / "never")
    # a child of its own holds our pipes, and waits for what never comes
    (fake.path / "aws").write_text(f"#!/bin/sh\n(read x < {tmp_path}/never) &\necho $! > {result}\nwait\n")
    with pytest.raises(Unavailable, match="did not end within 2 s") as raised:
        fake.cli(AWS_TOOL, seconds=2.0).ask(*TRY)
    assert raised.value.why is Why.TIMEOUT
    assert is_gone(int(result.read_text()))


def test_pages_are_turned_until_there_are_no_more(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "aws").when(
        "elbv2", Given('{"a": 1, "NextToken": "t"}'), Given('{"a": 2, "NextMarker": "m"}')
    )
    fake.when("elbv2", Given('{"a": 3}'), also=["--marker", "m"])
    assert [page["a"] for page in fake.cli(AWS_TOOL).pages(*TRY)] == [1, 2, 3]
    assert [argv[2:-2] for argv in fake.asked] == [[], ["--starting-token", "t"], ["--marker", "m"]]


def test_pages_without_an_end_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "MOST_PAGES", 3)
    fake = Fake(tmp_path, "aws").when("elbv2", Given('{"NextToken": "again"}'))
    with pytest.raises(Unavailable, match="has more than 3 pages"):
        list(fake.cli(AWS_TOOL).pages(*TRY))
    assert len(fake.asked) == 3


def test_secrets_in_what_it_says_are_hidden(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "openstack").when("loadbalancer", refused("password: hunter2-hunter2 was refused"))
    with pytest.raises(Unavailable) as raised:
        fake.cli(OPENSTACK_TOOL).ask("loadbalancer", "list")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("nodes", "provider"), [(GCE, "gce"), (AZURE, "azure"), (AWS, "aws"), (OPENSTACK, "openstack"), (KIND, "")]
)
def test_the_provider_is_known_by_the_nodes(nodes: list, provider: str) -> None:
    assert provider_of(nodes) == provider
    view = view_for(provider, nodes)
    assert (view.provider if view else "") == provider
    assert view is None or view.interval >= 10.0


def test_nobody_is_asked_where_nobody_is_known() -> None:
    assert provider_of([*GCE, *AWS]) == ""
    assert [view_for(name, KIND) for name in ("", "kind", "digitalocean")] == [None] * 3
    assert set(CLOUDS) == {"gce", "azure", "aws", "openstack"}
