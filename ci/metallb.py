"""Installation of MetalLB, in L2 or BGP mode.

In L2 mode its pools are in the kind network's subnets, for the cluster's families. In BGP mode its pool is in the range
that `router.py` routes; MetalLB's own BGP (not FRR's) announces IPv4 only.
"""

import base64
import secrets
from pathlib import Path

import yaml

from ci import network, router
from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.places import CONTEXT, Places, versions
from ci.polling import until
from ci.published import fetch
from ci.step import Journal, SetupError

READY_SECONDS = 120
NAMESPACE = "metallb-system"
DENIED = "denied the request"  # what an admission webhook's refusal says; one that is not there yet is not reached


def fetch_manifest(places: Places, journal: Journal) -> Path:
    """Return the released manifest, downloaded once and checked against its digest."""
    return fetch("MetalLB", versions()["metallb"], places, journal)


def install(there: ClusterAccess, manifest: Path, journal: Journal, peer: str = "", *, tainted: bool = False) -> None:
    """Install MetalLB and give it its pools; returns when it has accepted them and every speaker runs.

    Args:
        peer: the router that it announces its addresses to by BGP; without one it answers for them itself (L2).
        tainted: whether nodes are, so that speakers must tolerate it.
    """
    hint = f"ci/enter kubectl --context {CONTEXT} -n {NAMESPACE} get pods -o wide"
    with journal.step(f"install MetalLB, {'BGP' if peer else 'L2'} mode", hint=hint) as step:
        path = step.log.with_suffix(".yaml")
        path.write_text(hastened(manifest.read_text(), tainted=tainted))
        kubectl(there, step, "apply", "--server-side", "--filename", path)
        wait = [f"--timeout={READY_SECONDS}s", "--namespace", NAMESPACE]
        # The controller makes its webhook's certificate, and then waits for it to appear in its own volume. A kubelet
        # refreshes volumes about once a minute, or when the pod changes.
        filled = "--for=jsonpath={.data.tls\\.crt}"
        kubectl(there, step, "wait", "secret/metallb-webhook-cert", filled, *wait)
        noted = "esipp/certificate=there"
        kubectl(there, step, "annotate", "pods", "--selector=component=controller", noted, "--namespace", NAMESPACE)
        kubectl(there, step, "rollout", "status", "deployment/controller", *wait)
        kubectl(there, step, "rollout", "status", "daemonset/speaker", *wait)
        ranges = [router.POOL] if peer else network.cluster_pools(there)
        # The webhook answers only some time after its pod is ready, when every node's proxy knows it.
        apply = [*there.prefix, "kubectl", "--context", CONTEXT, "apply", "--server-side", "--filename"]
        path = step.log.with_suffix(".pools.yaml")
        path.write_text(yaml.safe_dump_all(objects(ranges, peer)))

        def applied() -> bool:
            refused = step.run([*apply, path], env=there.environment, ok=(0, 1))  # 1: the webhook does not answer yet
            if refused and DENIED in step.log.read_text(encoding="utf-8", errors="replace"):
                raise SetupError("MetalLB rejects its configuration.", "its webhook gives the reason above.", step.log)
            return not refused

        if not until(applied, READY_SECONDS, 0.5):
            raise SetupError("MetalLB does not take its configuration.", "its webhook does not answer.", step.log)
        step.note = ", ".join(ranges)


def hastened(manifest: str, *, tainted: bool = False) -> str:
    """Return the manifest with faster readiness, and with speakers on nodes that are ``tainted``.

    By default the readiness probe runs after ten seconds and then every ten. The speakers cannot start before the
    controller creates their secret, which kubelets notice only after a growing delay. An existing secret stays as it
    is.
    """
    documents = [document for document in yaml.safe_load_all(manifest) if document]
    for document in documents:
        for container in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            container["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
        # Nobody announces the VIP of a Local Service whose endpoints are all on nodes without a speaker.
        if tainted and document["kind"] == "DaemonSet":
            document["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists", "effect": "NoSchedule"}]
    secret = {"secretkey": base64.b64encode(secrets.token_bytes(128)).decode()}
    metadata = {"name": "memberlist", "namespace": NAMESPACE}
    documents.append({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret})
    documents.sort(key=lambda document: document["kind"] != "Namespace")
    return yaml.safe_dump_all(documents)


def objects(ranges: list[str], peer: str = "") -> list[dict[str, object]]:
    """Describe the pool and how it is announced: to a peer by BGP, or by answering ARP and NDP."""
    version = "metallb.io/v1beta1"
    name = {"name": "esipp", "namespace": NAMESPACE}
    pool: dict[str, object] = {"apiVersion": version, "kind": "IPAddressPool", "metadata": name}
    announced: dict[str, object] = {"apiVersion": version, "metadata": name, "spec": {"ipAddressPools": ["esipp"]}}
    pool["spec"] = {"addresses": ranges}
    if not peer:
        return [pool, {**announced, "kind": "L2Advertisement"}]
    session: dict[str, object] = {"myASN": router.AS, "peerASN": router.AS, "peerAddress": peer}
    session["holdTime"] = f"{router.HOLD_SECONDS}s"  # its own BGP refuses a keepaliveTime, and takes a third of it
    talks: dict[str, object] = {"apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer", "metadata": name}
    return [pool, {**talks, "spec": session}, {**announced, "kind": "BGPAdvertisement"}]
