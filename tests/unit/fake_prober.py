"""A prober that misbehaves on request: ``python fake_prober.py MODE``. For testing our side of the protocol."""

import json
import sys


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main(mode: str) -> None:
    if mode == "mute":
        sys.stdin.read()
    if mode == "dead":
        print("no such image", file=sys.stderr)
        sys.exit(3)
    say(event="ready", prober=2 if mode == "newer" else 1, version="0", addresses=["192.0.2.1", "2001:db8::1"])
    for line in sys.stdin:
        job = json.loads(line)
        if mode == "dies-at-work":
            sys.exit(1)
        if mode == "garbles":
            print("not json", flush=True)
        if mode == "refuses":
            say(id=job["id"], error="no such protocol")
            continue
        for seq in range(job["count"]):
            say(
                id=job["id"],
                seq=seq,
                outcome="answered",
                nonce=f"n{seq}",
                source_address="192.0.2.1",
                source_port=4000 + seq,
                started=1.0,
                ended=1.5,
                time=1e9,
                echo={"peer_address": "192.0.2.1", "peer_port": 4000 + seq, "pod": "backend", "nonce": f"n{seq}"},
            )
        say(id=job["id"], done=True, probes=job["count"])


main(sys.argv[1])
