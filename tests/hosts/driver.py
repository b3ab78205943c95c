"""Run in a client's network namespace: what esipp finds out about the places of ``--outside``, as JSON."""

import json
import sys

from esipp.base.client_places import read_places
from esipp.base.errors import EsippError
from esipp.checks.model import Family
from esipp.preflight import outside_clients
from esipp.probing import hosts
from esipp.probing import prober as protocol
from esipp.probing.outside import OutsideContainers
from esipp.probing.vantages import Outside


def main() -> int:
    """``driver.py learn PLACES PORT NODE=ADDRESS...``, or ``driver.py hold PLACES``: until it is killed."""
    vars(protocol)["TOKEN"] = ""  # the listeners here are of another process, and answer everybody
    task, found, *rest = sys.argv[1:]
    places = read_places(found) or ()
    try:
        if task == "hold":
            prober = hosts.start(places[0], "held")
            print(json.dumps(prober.hello()), flush=True)
            sys.stdin.read()
            return 0
        described = outside_clients.describe_hosts(places, [])
        outside = Outside(places, OutsideContainers("run", "", "", ""), described)
        clients = [f"outside-{number + 1}" for number in range(len(places))]
        port, nodes = int(rest[0]), [each.split("=") for each in rest[1:]]
        listeners = {
            Family.IPV4: {name: (address, port) for name, address in nodes if ":" not in address},
            Family.IPV6: {name: (address, port) for name, address in nodes if ":" in address},
        }
        for each in outside.learn(clients, listeners, lambda address: ""):
            found = {
                "client": each.client,
                "family": each.family.value,
                "finding": each.finding.value,
                "said": each.said,
            }
            print(json.dumps({**found, "seen": str(each.seen) if each.seen else None}))
    except EsippError as error:
        print(json.dumps({"error": error.sentence, "hint": error.hint}))
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
