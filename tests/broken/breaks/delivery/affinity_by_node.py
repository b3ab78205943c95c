"""sessionAffinity ClientIP by entry node instead of client."""

from tests.broken.breakage import Group, Unnoticed

BREAK = Unnoticed(
    "affinity-by-node",
    Group.DELIVERY,
    "sessionAffinity ClientIP uses the address of the node that a client entered through instead of the client's own",
    "the API allows the result: several clients may share a backend, and kube-proxy itself tracks "
    "clients on each node apart. Where the node's address takes the client's place, checks of the source see that",
)
