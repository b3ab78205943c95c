"""Path checks that the pre-1.7 annotations for the policy have no effect on traffic today. Data only."""

from collections.abc import Iterator

from esipp.checks.model import OldForm
from suites.path_checks import *

SUITE = "compatibility"
UNSET = Service(ServiceType.NODE_PORT)


def old_annotations(family: Family) -> Iterator[PathCheck]:
    """Yield checks with alpha and beta annotations, without the field or against it, at two kinds of node."""
    path = Path(OUTSIDE_1, ENDPOINT_NODE, Protocol.TCP, family)
    for shape in (UNSET, NODE_PORT_CLUSTER):
        service = replace(shape, old_form=OldForm.ONLY_LOCAL)
        for entry in (BARE_NODE, ENDPOINT_NODE):
            yield from answers_and_rewrites(replace(path, entry=entry, service=service), *OLD_FORMS)
    service = replace(NODE_PORT_LOCAL, old_form=OldForm.GLOBAL)
    yield path_check(replace(path, service=service), CLIENT_IP, Level.CORE, API_ETP, *OLD_FORMS)
    yield silent_at_bare_node(replace(path, entry=BARE_NODE, service=service), API_ETP, *OLD_FORMS)


CHECKS: tuple[PathCheck, ...] = tuple(
    replace(check, suite=SUITE) for family in FAMILIES for check in old_annotations(family)
)
