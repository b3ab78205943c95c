"""Stands in for an exec into a node that runs tcpdump: prints the given lines, sends a file, ends with its input.

fake_tap.py MODE PCAP …: whatever follows is the command that a real exec would run, and is ignored.
"""

import sys
from pathlib import Path

mode, pcap = sys.argv[1], Path(sys.argv[2])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


say("interface 1 lo")
say("interface 2 eth0")
if mode == "refuses":
    say("tcpdump: any: You don't have permission to perform this capture on that device")
    raise SystemExit(1)
if mode == "mute":
    sys.stdin.read()
    raise SystemExit(0)
say("tcpdump: data link type LINUX_SLL2")
say("tcpdump: listening on any, link-type LINUX_SLL2 (Linux cooked v2), snapshot length 256 bytes")
sys.stdout.buffer.write(pcap.read_bytes())
sys.stdout.flush()
if mode == "dies":
    say("command terminated with exit code 137")
    raise SystemExit(137)
if mode == "deaf":  # to its input
    import time

    time.sleep(60)
sys.stdin.read()
say("3 packets captured")
say("3 packets received by filter")
say(f"{7 if mode == 'loses' else 0} packets dropped by kernel")
say("interface 2 eth0")
say("interface 9 vethlate")
