"""A prober that misbehaves on request: ``python fake_prober.py MODE``. For testing our side of the protocol."""

import json
import sys
from typing import Any

PROTOCOL = 8


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def document(port: int | None, nonce: str | None) -> dict[str, Any]:
    own = {"peer_address": "192.0.2.1", "pod": "backend"}
    return own if port is None else {**own, "peer_port": port, "nonce": nonce}


def groups(job: dict[str, Any]) -> None:
    """All but the last probe showed the same; the last met silence."""
    most = job["count"] - 1
    ports = [[4000 + n, None if n == 1 else 4000 + n] for n in range(most)]
    common = {"brief": True, "answered_from": None, "source_address": "192.0.2.1", "started": 1.0, "ended": 2.0}
    say(
        id=job["id"], outcome="answered", detail=None, echo=document(None, None), count=most, connected_count=most,
        ports=ports, time=1e9, **common,
    )  # fmt: skip
    say(
        id=job["id"], outcome="timeout", detail="not connected", echo=None, count=1, connected_count=0,
        ports=[[4999, None]], time=1e9, **common,
    )  # fmt: skip


def single(job: dict[str, Any], seq: int) -> None:
    port = 4000 if job.get("one_socket") else 4000 + seq
    say(
        id=job["id"], seq=seq, outcome="answered", nonce=f"n{seq}", source_address="192.0.2.1", source_port=port,
        started=1.0, ended=1.5, time=1e9, echo=document(port, f"n{seq}"),
        **({"tag": 7 + seq} if job["protocol"] == "sctp" else {}),
    )  # fmt: skip


def main(mode: str) -> None:
    if mode == "mute":
        sys.stdin.read()
    if mode == "kubectl":
        for thread in ("7749", "   3"):
            print(f"E1121 17:31:47.299536 {thread} v2.go:130] websocket: close 1006", file=sys.stderr)
        sys.exit(1)
    if mode == "dead":
        print("no such image", file=sys.stderr)
        sys.exit(3)
    protocol = PROTOCOL + 1 if mode == "newer" else PROTOCOL
    say(event="ready", prober=protocol, version="0", addresses=["192.0.2.1", "2001:db8::1"])
    for line in sys.stdin:
        job = json.loads(line)
        if mode == "dies-at-work":
            sys.exit(1)
        if mode == "garbles":
            print("not json", flush=True)
        if mode == "counts":
            print(5, flush=True)
        if mode == "lives" and "describe" in job:
            say(id=job["id"], event="description")
            continue
        if mode in ("holds", "lives"):
            continue
        if mode == "timeless":
            say(id=job["id"], event="description")
            continue
        if mode == "refuses":
            say(id=job["id"], error="no such protocol")
            continue
        if mode == "echoes":
            say(id=job["id"], seq=0, outcome="error", detail=json.dumps(job, sort_keys=True))
        elif job.get("brief"):
            groups(job)
        else:
            for seq in range(job["count"]):
                single(job, seq)
        say(id=job["id"], done=True, probes=job["count"])


main(sys.argv[1])
