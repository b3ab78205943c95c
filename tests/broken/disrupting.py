"""A run with disruptions only: ``python -m tests.broken.disrupting --context NAME --image IMAGE --seed N [ONLY…]``.

Each disruption in turn in an order from the seed, or only those named in theirs, for some seconds, with a namespace and
pods like a run's.
"""

import argparse
import os
import random
import secrets
import time

from esipp.base.interrupt import Stop, undisturbed
from esipp.checks.disruption import PLACED, Disruption, features_of
from esipp.cluster.client import Cluster
from esipp.cluster.namespaces import owner, remove_namespace, wait_for_account
from esipp.disruption.daemon_sets import ROLLOUTS
from esipp.disruption.disruptor import Disruptor
from esipp.ledger.run import Settings
from esipp.preflight.preflight import Findings, examine
from esipp.testbed import manifests

LABELS = {"app": "drained"}
NEEDS_TRAFFIC = (Disruption.CONNTRACK_DELETED,)
"""What is proven by entries of a run's Services, and leaves nothing to undo."""
SECONDS = {Disruption.KUBELET: 5.0}
"""Duration of each disruption; 3 s by default, as leaders keep their Leases for 10 s without an API server."""


def possible(what: Disruption, findings: Findings) -> bool:
    """Whether these agents can be changed so; if not, the reason is printed. All else must be possible here."""
    if what not in ROLLOUTS:
        return True
    missing = [f"{name} ({each.why})" for name in features_of(what) if not (each := findings.features[name]).present]
    if missing:
        print(f"left out: {what}: no {', no '.join(missing)}", flush=True)
    return not missing


def main() -> None:
    """Set-up, disruptions, teardown."""
    parser = argparse.ArgumentParser()
    for name in ("--context", "--image", "--seed"):
        parser.add_argument(name, required=True)
    for name in ("KUBE_PROXY", "NETWORK_AGENT"):
        option = f"--{name.lower().replace('_', '-')}-image"
        parser.add_argument(option, default=os.environ.get(f"ESIPP_{name}_IMAGE", ""))
    parser.add_argument("only", nargs="*", type=Disruption)
    options = parser.parse_args()
    chance = random.Random(int(options.seed))
    cluster = Cluster(options.context)
    settings = Settings(
        options.context,
        image=options.image,
        allow_disruptive=True,
        kube_proxy_image=options.kube_proxy_image,
        network_agent_image=options.network_agent_image,
    )
    findings = examine(cluster, settings)
    nodes = sorted(findings.roles.values())
    run = f"kill-{secrets.token_hex(3)}"
    space = f"esipp-{run}"
    cluster.create("/api/v1/namespaces", manifests.namespace(space, run, owner()))
    wait_for_account(cluster, space)
    pods = [
        manifests.echo_pod(f"on-{node}", run, node, options.image, raw=False, labels=LABELS)
        for node in findings.roles.values()
    ]
    for pod in pods:
        cluster.create(f"/api/v1/namespaces/{space}/pods", pod)
    order = options.only or [each for each in Disruption if each not in NEEDS_TRAFFIC and possible(each, findings)]
    if not options.only:
        chance.shuffle(order)
    with Disruptor(
        cluster, findings, run, Stop(), undisturbed, say=lambda line: print(line, flush=True), images=settings.images
    ) as disruptor:
        for what in order:
            node = "" if what in PLACED else chance.choice(nodes)
            lasting = SECONDS.get(what, 3.0)
            disruptor.perform(what, node, lambda lasting=lasting: time.sleep(lasting), selector="app=drained")
    remove_namespace(cluster, space)
    print("done", flush=True)


if __name__ == "__main__":
    main()
