"""Harmless: the NAT in front of a client moves its source ports, as the NAT of a home router does."""

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager

from suites.clients import OUTSIDE_NAT
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.nodes import PROGRAMS, Live, Nodes, Placed


def moving_ports(nodes: Nodes) -> AbstractContextManager[Placed]:
    """In the client's own network namespace, by the tools of a node's image; it goes with the container."""
    image = docker("inspect", "--format", "{{.Image}}", nodes.containers[0])

    @contextlib.contextmanager
    def enter(live: Live) -> Iterator[None]:
        name = f"esipp-{live.run}-{OUTSIDE_NAT.name}"
        own = "-S POSTROUTING | sed -n 's/^-A POSTROUTING \\(.*SNAT.*\\)/\\1/p'"  # docker's own NAT is in other chains
        changes = [
            f"rule=$({nat} {own}); {nat} -D POSTROUTING $rule; {nat} -A POSTROUTING $rule --random-fully"
            for nat in (f"{program} --wait -t nat" for program in PROGRAMS.values())
        ]
        rights = ("--user", "0", "--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW")
        where = ("--rm", "--network", f"container:{name}", "--read-only", "--tmpfs", "/run", *rights)
        docker("run", *where, "--entrypoint", "sh", image, "-ec", "\n".join(changes))
        yield

    return nodes.once_arranged(enter)


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True, timeout=60).stdout.strip()


BREAK = Break(
    "nat-before-the-cluster-moves-ports",
    Group.HARMLESS,
    "the NAT in front of a client outside moves its source ports",
    RunOptions(("vantages",)),
    moving_ports,
    no_check,
    scoped=True,
)
