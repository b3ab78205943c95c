"""What the balancer reads of others, nodes and readers of its admin endpoint: nothing that they write ends it."""

import http.client
import socket
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from images.loadbalancer.balancer.admin import Admin, _Server
from images.loadbalancer.balancer.checks import MOST_WEIGHT, status_of, weight_of
from images.loadbalancer.balancer.decisions import Decisions

many = settings(
    max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
WORDS = st.sampled_from(
    [b"HTTP/1.1", b"HTTP/1.", b"HTTP/2", b" ", b"200", b"0200", b"9" * 5000, b"\r\n", b"\n", b":", b"\xb2", b"-1",
     b"X-Load-Balancing-Endpoint-Weight: ", b"x-load-balancing-endpoint-weight:"]
)  # fmt: skip
HEADS = st.lists(WORDS | st.binary(max_size=4), max_size=12).map(b"".join)


@many
@given(head=HEADS)
def test_any_answer_to_a_health_check_is_read(head: bytes) -> None:
    status = status_of(head)
    assert status is None or 0 <= status <= 999
    assert 1 <= weight_of(head) <= MOST_WEIGHT


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n", 200), (b"HTTP/1.0 503", 503), (b"HTTP/1.1 0200 OK", None), (b"HTTP/2 200", None),
        (b"HTTP/1.1 " + b"9" * 5000, None), (b"HTTP/1.1 \xb2\xb2\xb2", None), (b"", None), (b"HTTP/1.1", None),
    ],
)  # fmt: skip
def test_a_status_has_three_digits(head: bytes, status: int | None) -> None:
    assert status_of(head) == status


class Served(NamedTuple):
    """An admin endpoint: its port, and the exceptions that handlers ended with."""

    port: int
    raised: list[BaseException]


@pytest.fixture(scope="module", name="admin")
def served() -> Iterator[Served]:
    decisions = Decisions(kept=5)
    made = Admin(["127.0.0.1"], 0, lambda: {"balancer": "esipp-reference"}, decisions)
    raised: list[BaseException] = []

    def failed(*_: object) -> None:
        raised.extend(error for error in [sys.exception()] if error and not isinstance(error, OSError))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Server, "handle_error", failed)
        made.start()
        yield Served(made.ports[0], raised)
        decisions.close()
        made.close()


def answer(port: int, request: bytes) -> bytes:
    """The beginning of what comes back, once all is sent."""
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        try:
            return sock.recv(64)
        except ConnectionResetError:
            return b""


TARGETS = st.sampled_from([b"/view", b"/decisions", b"/", b"http://[", b"//[::", b"*", b"/decisions?after="])
LINES = st.sampled_from([b"GET ", b"PUT ", b" HTTP/1.1\r\n", b" HTTP/9\r\n", b"\r\n", b"A: b\r\n", b"9" * 30, b"\xff"])
REQUESTS = st.tuples(
    st.sampled_from([b"GET ", b"HEAD ", b""]), TARGETS, st.lists(LINES | st.binary(max_size=5), max_size=5)
)


@settings(many, max_examples=100)
@given(parts=REQUESTS)
def test_any_request_to_the_admin_endpoint_is_answered_or_closed(
    admin: Served, parts: tuple[bytes, bytes, list[bytes]]
) -> None:
    method, target, rest = parts
    answer(admin.port, method + target + b"".join(rest) + b"\r\n\r\n")
    assert admin.raised == []


@pytest.mark.parametrize("target", ["http://[", "/decisions?after=" + "9" * 5000, "/decisions?after=%C2%B2"])
def test_nonsense_is_a_bad_request(admin: Served, target: str) -> None:
    said = answer(admin.port, f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 400 ")


def test_it_still_answers(admin: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=20)
    connection.request("GET", "/view")
    assert connection.getresponse().read() == b'{"balancer": "esipp-reference"}\n'
    connection.close()
    assert admin.raised == []
