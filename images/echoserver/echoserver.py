"""Echo server: tells every client, over TCP, HTTP, UDP and SCTP, which address and port its packets came from.

usage: echoserver.py [--http PORT] [--tcp PORT] [--udp PORT] [--sctp PORT] [--control PORT]
                     [--on-sigterm stop|serve:SECONDS]
       echoserver.py control ready=true|false [--control PORT]

PORT is a number, 0 for any free one (not for SCTP), or "off"; each option can also be given as ESIPP_HTTP,
ESIPP_ON_SIGTERM ... With ESIPP_TOKEN, which is no option, only requests that begin with it are answered.
The contract stands in README.md beside this file.

Nothing is imported that is not needed, and one epoll loop does the serving: python images ship without compiled
modules, where importing asyncio alone takes several times as long as everything here.
"""

from __future__ import annotations

import os
import socket
import sys

TYPE_CHECKING = False  # as typing has it, without importing typing
if TYPE_CHECKING:
    from images.echoserver.serving import EXCHANGE_SECONDS, Server
else:  # in the image these files lie side by side and are no package
    from serving import EXCHANGE_SECONDS, Server

DEFAULTS = {"http": "8080", "tcp": "8081", "udp": "8082", "sctp": "off", "control": "8079", "on-sigterm": "stop"}


def switch(setting: str, port: str) -> int:
    """Send a setting to the server beside us in the same network namespace."""
    name, _, value = setting.partition("=")
    if name != "ready" or value not in ("true", "false") or not port.isdigit():
        print("usage: echoserver.py control ready=true|false [--control PORT]", file=sys.stderr)
        return 2
    request = f"PUT /ready HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(value)}\r\n\r\n{value}"
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", int(port)), EXCHANGE_SECONDS) as sock:
            sock.sendall(request.encode())
            while data := sock.recv(4096):
                answer += data
    except OSError as error:
        print(f"no answer from the control port {port}: {error}", file=sys.stderr)
        return 1
    status, _, _ = answer.partition(b"\r\n")
    if b" 200 " not in status:
        print(f"refused: {status.decode('latin-1')}", file=sys.stderr)
        return 1
    print(f"ready={value}")
    return 0


def usage(problem: str) -> SystemExit:
    """The exit of a wrong command line."""
    print(f"{problem}\n{(__doc__ or '').partition('usage: ')[2].partition('PORT is')[0].rstrip()}", file=sys.stderr)
    return SystemExit(2)


def parse(arguments: list[str], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Split a command line into words and options; what it leaves out comes from ESIPP_*, then from the defaults."""
    options = {k: environment.get("ESIPP_" + k.upper().replace("-", "_")) or v for k, v in DEFAULTS.items()}
    words: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            words.append(argument)
            continue
        name, equals, value = argument.removeprefix("--").partition("=")
        if argument in ("-h", "--help"):
            print((__doc__ or "").strip())
            raise SystemExit(0)
        if name not in options or not argument.startswith("--"):
            raise usage(f"unknown option {argument}")
        options[name] = value if equals else next(rest, "")
    for name in ("http", "tcp", "udp", "sctp", "control"):
        port = options[name]
        if port != "off" and not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
            raise usage(f"--{name} is a port, 0 or off, not {port!r}")
    if options["sctp"] != "off" and not int(options["sctp"]):  # nobody gives raw sockets a port
        raise usage("--sctp is a port or off")
    mode, _, seconds = options["on-sigterm"].partition(":")
    if options["on-sigterm"] != "stop" and (
        mode != "serve" or not seconds.replace(".", "", 1).isdigit() or len(seconds) > 8
    ):
        raise usage(f"--on-sigterm is stop or serve:SECONDS, not {options['on-sigterm']!r}")
    return words, options


def main() -> int:
    """Run the server, or the control client."""
    words, options = parse(sys.argv[1:], dict(os.environ))
    if words[:1] == ["control"] and len(words) == 2:
        return switch(words[1], options["control"])
    if words:
        raise usage(f"unknown word {words[0]}")
    try:
        server = Server(options, dict(os.environ))
    except ValueError as error:  # its value is not shown
        raise usage(f"ESIPP_TOKEN is {error}") from None
    server.listen()
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
