"""Who refused, and who can lift it: by the words that API servers use."""

import re

import pytest

from esipp.checks.check import HOST_NETWORK
from esipp.checks.interoperability import MANY_SERVICES
from esipp.cluster.client import ApiError
from esipp.scenarios.changing_pods import MOVES_LABEL
from esipp.scenarios.continuity import objects as continuity
from esipp.scenarios.service_change.objects import CHANGES_LABEL, MANY
from esipp.testbed.manifests import CPU, TIMED_CPU
from esipp.testbed.refusals import ASKS_FOR, BALANCERS, EACH, PODS, SERVICES, hint_for
from tests.unit import objects_world as world


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (401, "Unauthorized", "expired or revoked token"),
        (500, "failed to allocate a nodePort: range is full", "--service-node-port-range"),
        (403, 'pods "backend" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2',
         "a ResourceQuota"),
        (403, 'pods "backend" is forbidden: failed quota: few: must specify limits.cpu for: echo', "a ResourceQuota"),
        (403, 'pods "backend" is forbidden: maximum memory usage per Container is 64Mi, but limit is 256Mi',
         "a LimitRange"),
        (403, 'pods "agent-a" is forbidden: violates PodSecurity "restricted:latest": host namespaces', "Pod Security"),
        (403, 'admission webhook "pods.example.com" denied the request: no', "the admission webhook pods.example.com"),
        (500, 'Internal error occurred: failed calling webhook "pods.example.com": failed to call webhook: Post ...',
         "the admission webhook pods.example.com"),
        (422, "pods \"backend\" is forbidden: ValidatingAdmissionPolicy 'no-pods' with binding 'x' denied request: no",
         "the admission policy no-pods"),
        (403, 'pods is forbidden: User "x" cannot create resource "pods" in API group "" in the namespace "y"',
         "the account needs the rights"),
        (403, 'pods "backend" is forbidden: unable to create new content in namespace x because it is being terminated',
         "someone deleted the run's namespace"),
        (409, "the object has been modified", "removed its objects"),
    ],
)  # fmt: skip
def test_whose_refusal_it_is(status: int, message: str, words: str) -> None:
    assert words in hint_for(ApiError(status, "", message, "POST /pods"))


def test_what_is_asked_for_is_what_a_run_makes() -> None:
    pods, services = world.pods(), world.services()
    assert len(pods) + 10 <= PODS < len(pods) + 50, "larger clusters have a few more agents"
    assert len(services) <= SERVICES < len(services) + 50
    balanced = sum(each["spec"]["type"] == "LoadBalancer" for each in services.values())
    assert balanced <= BALANCERS < balanced + 50
    assert f"{MANY_SERVICES} more" in ASKS_FOR


def test_what_each_pod_asks_for_is_what_it_is_given() -> None:
    steady = continuity.deployment("1", "image", ["node"], 5)["spec"]["template"]
    given = set()
    for pod in (*world.pods().values(), steady):
        for container in pod["spec"]["containers"]:
            asked, most = container["resources"]["requests"], container["resources"]["limits"]
            timed = any(label.startswith((MOVES_LABEL, CHANGES_LABEL)) for label in pod["metadata"]["labels"])
            timed &= pod["metadata"].get("name") not in MANY
            assert asked["cpu"] == (TIMED_CPU if timed else CPU)
            assert EACH.startswith(f"{CPU} of CPU ({TIMED_CPU} for timed answers) and {asked['memory']} of memory each")
            assert EACH.endswith(f"{most['memory']} of memory and none of CPU")
            assert set(most) == {"memory"}
            given.add(asked["cpu"])
    assert given == {CPU, TIMED_CPU}


def test_features_that_hints_name_can_be_left_out() -> None:
    said = hint_for(ApiError(403, "", "violates PodSecurity", "POST /pods"))
    (named,) = re.findall(r"--without ([\w.-]+)", said)
    assert named == HOST_NETWORK
