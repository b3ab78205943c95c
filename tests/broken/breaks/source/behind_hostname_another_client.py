"""One client's packets through a hostname get another client's address."""

from tests.broken.balancing import HOSTNAME_FORWARDER, PROFILE
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.breaks.source.another_client import notices, swapping, undecided

BREAK = Break(
    "hostname-vip-shows-another-client",
    Group.SOURCE,
    "the load balancer announces a hostname, and the endpoint node rewrites one client's address to another client's",
    RunOptions(("source_ip",), (".outside-1-to-", ".outside-2-to-"), own=HOSTNAME_FORWARDER, options=PROFILE),
    swapping,
    path_checks(notices),
    names="address of another client",
    opens=undecided,
)
