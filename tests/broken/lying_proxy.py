"""A proxy on a node between health check clients and the service proxy that changes the answer.

``python3 -c "$(cat lying_proxy.py)" LIE``: accepts connections that NAT redirects to its port, on every address and in
both families, requests the original destination, and gives one of LIES. Runs in the echo image: standard library only.
"""

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

FIRST_PORT = 19900
ORIGINAL_DESTINATION = 80
WITHIN = 10.0
Target = tuple[str, int]

kept: dict[Target, bytes] = {}
counting = threading.Lock()


def wanted(client: socket.socket) -> Target:
    """The original destination, before NAT."""
    if client.family is socket.AF_INET:
        destination = client.getsockopt(socket.SOL_IP, ORIGINAL_DESTINATION, 16)
        return socket.inet_ntop(socket.AF_INET, destination[4:8]), struct.unpack("!H", destination[2:4])[0]
    destination = client.getsockopt(socket.IPPROTO_IPV6, ORIGINAL_DESTINATION, 28)
    return socket.inet_ntop(socket.AF_INET6, destination[8:24]), struct.unpack("!H", destination[2:4])[0]


def read(connection: socket.socket, until: bytes) -> bytes:
    """What comes up to an end; all there is, where none is named."""
    found = b""
    while not (until and until in found):
        more = connection.recv(65536)
        if not more:
            break
        found += more
    return found


def ask(request: bytes, where: Target) -> bytes:
    """The true answer."""
    with socket.create_connection(where, timeout=WITHIN) as connection:
        connection.sendall(request)
        return read(connection, b"")


def status(words: bytes) -> Callable[[bytes], bytes]:
    """The same answer with another status line."""
    return lambda answer: b"HTTP/1.1 " + words + b"\r\n" + answer.partition(b"\r\n")[2]


def counted(answer: bytes) -> bytes:
    """One endpoint more than there is, in the document and in the header."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = []
    if body:
        document = json.loads(body)
        document["localEndpoints"] += 1
        body = json.dumps(document).encode()
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name.lower() == b"x-load-balancing-endpoint-weight":
            line = name + b": " + str(int(value) + 1).encode()
        if name.lower() == b"content-length" and body:
            line = name + b": " + str(len(body)).encode()
        lines.append(line)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def weightless(answer: bytes) -> bytes:
    """The same answer without the weight."""
    head, _, body = answer.partition(b"\r\n\r\n")
    left = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"x-load-balancing-endpoint-weight")]
    return b"\r\n".join(left) + b"\r\n\r\n" + body


def in_other_words(answer: bytes) -> bytes:
    """The answer of another service proxy: the same status, service and count, without the proxy's health."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not body:  # to HEAD
        return answer
    document = json.loads(body)
    service = {"name": document["service"]["name"], "namespace": document["service"]["namespace"]}
    body = json.dumps({"localEndpoints": document["localEndpoints"], "service": service}).encode()
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body


def after(seconds: float) -> Callable[[bytes], bytes]:
    """The same answer, late."""

    def late(answer: bytes) -> bytes:
        time.sleep(seconds)
        return answer

    return late


def other_status(answer: bytes) -> bytes:
    """The other one of the two statuses."""
    well = b" 200 " in answer.partition(b"\r\n")[0]
    return status(b"503 Service Unavailable" if well else b"200 OK")(answer)


asked: dict[Target, int] = {}
lied: set[Target] = set()
TRUE_BEFORE = 100


def once(answer: bytes, where: Target) -> bytes:
    """The true answer, except once after a number of requests."""
    with counting:
        asked[where] = asked.get(where, 0) + 1
        lies = asked[where] > TRUE_BEFORE and where not in lied
        if lies:
            lied.add(where)
    return other_status(answer) if lies else answer


HANGS = 6.0
"""Seconds, more than load balancers wait and less than the client outside does."""

ONE_IN = 4
"""How many requests there are to each that hangs: the others are prompt, so that the health check is found to answer.
No multiple of how many clients ask at a time, so that every client meets it."""


def hangs(answer: bytes, where: Target) -> bytes:
    """The true answer; one in some comes late."""
    with counting:
        asked[where] = asked.get(where, 0) + 1
        late = asked[where] % ONE_IN == 0
    return after(HANGS)(answer) if late else answer


LIES: dict[str, Callable[[bytes], bytes]] = {
    "200": status(b"200 OK"),
    "503": status(b"503 Service Unavailable"),
    "500": status(b"500 Internal Server Error"),
    "count": counted,
    "weight": weightless,
    "other-words": in_other_words,
    "slow": after(3),
    "stuck": lambda answer: answer,
    "stays": lambda answer: answer,
    "once": lambda answer: answer,
    "hangs": lambda answer: answer,
    "after-200-ms": after(0.2),
}

COUNTING: dict[str, Callable[[bytes, Target], bytes]] = {"once": once, "hangs": hangs}
"""Those that depend on how often a health check was asked."""


def port_of(lie: str) -> int:
    """Its port: each wrong answer has its own, so that several can run in parallel."""
    return FIRST_PORT + list(LIES).index(lie)


def serve(client: socket.socket, lie: str) -> None:
    """One connection."""
    with client:
        client.settimeout(WITHIN)
        where = wanted(client)
        request = read(client, b"\r\n\r\n")
        if lie == "stuck" and where in kept:  # the first 200 for ever
            client.sendall(kept[where])
            return
        try:
            answer = ask(request, where)
        except ConnectionRefusedError:
            if lie != "stays" or where not in kept:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            answer = kept[where]
        if lie == "stays" or b" 200 " in answer.partition(b"\r\n")[0]:
            kept[where] = answer
        client.sendall(COUNTING[lie](answer, where) if lie in COUNTING else LIES[lie](answer))


def take(server: socket.socket, lie: str) -> None:
    while True:
        client, _ = server.accept()
        threading.Thread(target=serve, args=(client, lie), daemon=True).start()


def main(lie: str) -> None:
    port = port_of(lie)
    servers = [
        socket.create_server(("0.0.0.0", port), backlog=512),
        socket.create_server(("::", port), family=socket.AF_INET6, backlog=512),
    ]
    print("ready", flush=True)
    threads = [threading.Thread(target=take, args=(server, lie)) for server in servers]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main(sys.argv[1])
