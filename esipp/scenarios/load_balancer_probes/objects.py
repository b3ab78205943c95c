"""Objects of this scenario: a Service of each load balancer and policy, over the testbed's backend."""

from esipp.checks.model import OUTSIDE, Backends
from esipp.scenarios.health.objects import local_service
from esipp.scenarios.load_balancer_probes.subject import ProfileFigureCheck, service_name
from esipp.testbed.manifests import BACKEND_LABEL
from esipp.testbed.objects import Ground, Objects


def objects(checks: list[ProfileFigureCheck], ground: Ground) -> Objects:
    """The Services, which must have their VIPs before the run begins."""
    asked = dict.fromkeys((each.subject.balancer, each.subject.policy) for each in checks)
    services = [
        local_service(
            service_name(balancer, policy),
            ground.run,
            {BACKEND_LABEL: Backends.POD.value},
            balancer=balancer.its_class,
            externalTrafficPolicy=policy.value,
        )
        for balancer, policy in asked
    ]
    announced = frozenset(str(each["metadata"]["name"]) for each in services)
    return Objects((), tuple(services), announced, frozenset({OUTSIDE} if asked else ()))
