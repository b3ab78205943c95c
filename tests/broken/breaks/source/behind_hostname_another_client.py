"""By a hostname one client's packets come with another client's address."""

from tests.broken.balancing import HOSTNAME_FORWARDER, PROFILE
from tests.broken.breakage import Asked, Break, Group, cells
from tests.broken.breaks.source.another_client import spoiled, swapping
from tests.broken.masquerading import CLIENT
from tests.broken.ways import rests_on

BREAK = Break(
    "hostname-vip-shows-another-client",
    Group.SOURCE,
    "the load balancer announces a hostname, and the endpoint node rewrites one client's address to another's",
    Asked(("source_ip",), (".outside-1-to-", ".outside-2-to-"), own=HOSTNAME_FORWARDER, options=PROFILE),
    swapping,
    cells(lambda cell: cell.accept == CLIENT and spoiled(cell.path)),
    names="address of another client",
    opens=rests_on(spoiled),
)
