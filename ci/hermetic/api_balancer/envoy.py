#!/usr/bin/env python3
"""HAProxy under Envoy's name, as Envoy's image cannot be built here: kind runs ``envoy -c FILE`` before API servers.

kind starts it with an empty configuration. When all nodes run, it writes the API servers to ``cds.yaml``, which Envoy
would read again. This program waits for them, and becomes HAProxy with the same health checks as kind's.
"""

import os
import re
import time
from pathlib import Path

SERVERS = Path("/home/envoy/cds.yaml")
CONFIG = Path("/run/haproxy.cfg")
SERVER = re.compile(r"address: (\S+)\s+port_value: (\d+)")
PERIOD_SECONDS = 0.2
"""Between two looks at the file: nothing tells this program that kind has written it."""

# maxconn: it must be able to open two files for each, and may not raise this limit, which can be 1024.
HEAD = """global
    maxconn 400
defaults
    mode tcp
    timeout connect 1s
    timeout client 1h
    timeout server 1h
    timeout check 3s
    retries 3
    option redispatch 1
frontend clients
    bind :::{port} v4v6
    default_backend api-servers
backend api-servers
    balance roundrobin
    option httpchk GET /healthz
    default-server check check-ssl verify none inter 2s fall 2 rise 1
"""


def config(text: str) -> str:
    """HAProxy's configuration for the servers in kind's ``cds.yaml``; empty as long as there is none."""
    servers: list[tuple[str, str]] = SERVER.findall(text)
    if not servers:
        return ""
    lines = [f"    server {host} {host}:{port}\n" for host, port in servers]
    return HEAD.format(port=servers[0][1]) + "".join(lines)


def main() -> None:
    """Wait for the API servers, and become HAProxy; kind's own loop starts this again if that ends."""
    while not (text := config(SERVERS.read_text())):
        time.sleep(PERIOD_SECONDS)  # kind copies the file into the container, and nothing announces it
    CONFIG.write_text(text)
    print(text, flush=True)  # for `kind export logs`
    os.execvp("haproxy", ["haproxy", "-db", "-f", str(CONFIG)])  # noqa: S606 - the image's own


if __name__ == "__main__":
    main()
