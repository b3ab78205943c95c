"""AWS' view: the target health of network load balancers, the instance health of classic ones.

A Service's status has the load balancer's DNS name. The shapes are those of the Elastic Load Balancing APIs 2015-12-01
(``DescribeTargetHealth``) and 2012-06-01 (``DescribeInstanceHealth``).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from esipp.base.json import Json
from esipp.judging.health_view import Asked, Member, State, Unavailable, Why
from esipp.loadbalancers.views.cli import Tool, as_list, as_object
from esipp.loadbalancers.views.cloud import CloudView

READS = frozenset(
    {
        ("elbv2", "describe-load-balancers"),
        ("elbv2", "describe-target-groups"),
        ("elbv2", "describe-target-health"),
        ("elb", "describe-load-balancers"),
        ("elb", "describe-instance-health"),
    }
)

TOOL = Tool(
    "aws",
    READS,
    login="aws configure, or aws sso login",
    rights="elasticloadbalancing:DescribeLoadBalancers, :DescribeTargetGroups, :DescribeTargetHealth and, "
    "for classic ones, :DescribeInstanceHealth",
    ending=("--output", "json"),
    environment={"AWS_PAGER": ""},
)

STATES = {
    # TargetHealth.State; draining and unused ones get no new connections
    "healthy": State.HEALTHY,
    "unhealthy": State.UNHEALTHY,
    "unhealthy.draining": State.UNHEALTHY,
    "draining": State.UNHEALTHY,
    "unused": State.UNHEALTHY,
    # InstanceState.State
    "InService": State.HEALTHY,
    "OutOfService": State.UNHEALTHY,
}

FAIL_OPEN = "no target is healthy: a network load balancer then sends to all of them (AWS: fail open)"


class Where(NamedTuple):
    """A load balancer: its name, its region, and its target groups' ARNs (none: a classic one)."""

    name: str
    region: str
    groups: tuple[str, ...]


class AmazonView(CloudView[Where]):
    """What AWS' load balancers say."""

    provider = "aws"
    tool = TOOL
    # ours: a request a target group, and the API's rate is shared by the whole account
    interval = 10.0
    lag = 10.0

    def find(self, service: Asked) -> Where:
        """The load balancer with the Service's DNS name: of the newer API, or a classic one."""
        if not service.hostnames:
            raise Unavailable(
                Why.UNSUPPORTED, f"The Service {service.name} has no hostname to find an AWS load balancer by.",
                "check that its load balancer is one of AWS.",
            )  # fmt: skip
        region = _region(service.hostnames[0])
        looks = [self._newer, self._classic]
        if re.search(r"\.elb\.amazonaws\.", service.hostnames[0]):  # a classic one's, or an application load balancer's
            looks.reverse()
        found = next((where for look in looks if (where := look(service, region))), None)
        if found is None:
            raise self.missing(service, f"in {region or 'the region that aws is set to'}")
        return found

    def look(self, found: Where, service: Asked) -> tuple[tuple[Member, ...], tuple[str, ...]]:
        """The health of each target."""
        del service
        at = _at(found.region)
        if not found.groups:
            answer = as_object(
                self.cli.ask("elb", "describe-instance-health", "--load-balancer-name", found.name, *at), "elb"
            )
            return tuple(self._instance(each) for each in answer["InstanceStates"]), ()
        members = []
        for group in found.groups:
            answer = as_object(
                self.cli.ask("elbv2", "describe-target-health", "--target-group-arn", group, *at), "elbv2"
            )
            members += [self._target(each) for each in answer["TargetHealthDescriptions"]]
        open_to_all = members and not any(each.state is State.HEALTHY for each in members)
        return tuple(members), ((FAIL_OPEN,) if open_to_all else ())

    def name(self, found: Where) -> str:
        """Its name."""
        return found.name

    def _newer(self, service: Asked, region: str) -> Where | None:
        for each in self._all("LoadBalancers", "elbv2", "describe-load-balancers", *_at(region)):
            if _same(each.get("DNSName"), service):
                arn = str(each["LoadBalancerArn"])
                command = ("elbv2", "describe-target-groups", "--load-balancer-arn", arn)
                groups = list(self._all("TargetGroups", *command, *_at(region)))
                # one for each port; a load balancer may be shared, and the others are other Services'
                own = [group for group in groups if group.get("Port") in service.node_ports]
                arns = tuple(str(group["TargetGroupArn"]) for group in own or groups)
                if not arns:
                    raise Unavailable(
                        Why.NOT_FOUND, f"The load balancer {each['LoadBalancerName']} has no target group (yet).",
                        "wait for the controller that makes it.",
                    )  # fmt: skip
                return Where(str(each["LoadBalancerName"]), region, arns)
        return None

    def _classic(self, service: Asked, region: str) -> Where | None:
        for each in self._all("LoadBalancerDescriptions", "elb", "describe-load-balancers", *_at(region)):
            if _same(each.get("DNSName"), service):
                return Where(str(each["LoadBalancerName"]), region, ())
        return None

    def _all(self, key: str, *words: str) -> Iterator[Json]:
        for page in self.cli.pages(*words):
            yield from as_list(as_object(page, words[1])[key], words[1])

    def _target(self, described: Json) -> Member:
        target, health = described["Target"], described["TargetHealth"]
        state, name = str(health["State"]), str(target["Id"])
        reason = ": ".join(str(health[key]) for key in ("Reason", "Description") if health.get(key))
        return Member(name, self.places.find(name), STATES.get(state, State.UNKNOWN), state, reason)

    def _instance(self, instance: Json) -> Member:
        state, name = str(instance["State"]), str(instance["InstanceId"])
        said = (str(instance.get(key) or "") for key in ("ReasonCode", "Description"))
        reason = ": ".join(each for each in said if each not in ("", "N/A"))
        return Member(name, self.places.find(name), STATES.get(state, State.UNKNOWN), state, reason)


def _region(hostname: str) -> str:
    """``NAME.elb.REGION.amazonaws.com`` (network), ``NAME.REGION.elb.amazonaws.com`` (classic); empty if neither."""
    found = re.search(r"\.elb\.([a-z0-9-]+)\.amazonaws\.|\.([a-z0-9-]+)\.elb\.amazonaws\.", hostname)
    return (found[1] or found[2]) if found else ""


def _at(region: str) -> tuple[str, ...]:
    return ("--region", region) if region else ()


def _same(name: object, service: Asked) -> bool:
    """DNS has no case; a Service may have the name for both families."""
    own = {hostname.removeprefix("dualstack.") for hostname in service.hostnames}
    return str(name or "").rstrip(".").lower().removeprefix("dualstack.") in own
