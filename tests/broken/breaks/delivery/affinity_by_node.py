"""sessionAffinity ClientIP goes by the node that a connection came through, not by the client."""

from tests.broken.breakage import Group, Unnoticed

BREAK = Unnoticed(
    "affinity-by-node",
    Group.DELIVERY,
    "sessionAffinity ClientIP goes by the address of the node that a client entered through, not by the client's own",
    "the API does not forbid what comes of it: several clients may share a backend, and kube-proxy itself remembers "
    "clients on each node apart. Where the node's address takes the client's place, checks of the source see that",
)
