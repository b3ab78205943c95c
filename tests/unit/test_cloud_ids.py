"""Cloud ids become pseudonyms on request, the same id the same one; addresses and anybody's names stay."""

import json
from typing import Any

import pytest

from esipp.base.cloud_ids import CloudIds


def wanted(context: str = "c", *nodes: dict[str, Any]) -> CloudIds:
    ids = CloudIds()
    ids.wanted = True
    ids.learn(context, nodes)
    return ids


def node(name: str, provider: str, *hosts: str) -> dict[str, Any]:
    addresses = [{"type": "InternalDNS", "address": host} for host in hosts]
    addresses.append({"type": "InternalIP", "address": "10.0.1.23"})
    return {"metadata": {"name": name}, "spec": {"providerID": provider}, "status": {"addresses": addresses}}


SUBSCRIPTION = "/subscriptions/0a1b2c3d-0000-4000-8000-0123456789ab"


@pytest.mark.parametrize(
    "identity",
    [
        "aws:///eu-west-1a/i-0abc1234def567890",
        "gce://my-project-1/europe-west1-b/gke-c-pool-1",
        f"azure://{SUBSCRIPTION}/resourceGroups/mc_rg/providers/Microsoft.Compute/virtualMachineScaleSets/x/0",
        f"{SUBSCRIPTION}/resourceGroups/rg",
        "openstack:///0a1b2c3d-0000-4000-8000-0123456789ab",
        "arn:aws:eks:eu-west-1:123456789012:cluster/x",
        "arn:aws-cn:iam::123456789012:role/a/b",
        "gke_my-project-1_europe-west1_cluster-1",
        "me@cluster.eu-west-1.eksctl.io",
        "robot@my-project-1.iam.gserviceaccount.com",
        "a0123-456.eu-west-1.elb.amazonaws.com",
        "a0123.elb.eu-west-1.amazonaws.com",
        "0A1B2C.gr7.eu-west-1.eks.amazonaws.com",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
        "x-dns-12345678.hcp.westeurope.azmk8s.io",
        "gke-c-pool-1.europe-west1-b.c.my-project-1.internal",
        "MC_rg_cluster_westeurope",
        "i-0abc1234def567890",
        "sg-0abc1234",
    ],
)
def test_what_names_an_account_becomes_a_pseudonym(identity: str) -> None:
    ids = wanted()
    assert ids.replace(f'"{identity}", ({identity})') == '"cloud-id-1", (cloud-id-1)'
    text = json.dumps({"a": f'"{identity}"', identity: 1})
    assert json.loads(ids.replace(text)) == {"a": '"cloud-id-1"', "cloud-id-1": 1}


@pytest.mark.parametrize(
    "text",
    [
        "kind://docker/esipp/esipp-worker https://example.com/a?b=c containerd://2.2.0",
        "172.18.0.5:44880 fc00:f853:ccd:e793::2 203.0.113.7 1a859da53bc08035:405:0",
        "uid 772fa9c1-1e8f-4ee4-890f-823b4efe79bb, sha256:" + "0a" * 32,
        "nodeport.local.tcp.ipv4.outside-1-to-bare-node, svc.cluster.local, api-0abc1234, cluster.internal",
        "quay.io/metallb/speaker:v0.16.1 registry.k8s.io/kube-proxy:v1.36.3",
    ],
)
def test_what_is_evidence_or_nobodys_stays(text: str) -> None:
    assert wanted("kind-esipp", node("kind-worker2", "kind://docker/kind/kind-worker2")).replace(text) == text


def test_nothing_is_replaced_unless_asked() -> None:
    ids = wanted("gke_my-project-1_z_c")
    ids.wanted = False
    assert ids.replace("aws:///eu-west-1a/i-0abc1234def567890 my-project-1") == (
        "aws:///eu-west-1a/i-0abc1234def567890 my-project-1"
    )


def test_names_of_nodes_and_projects_wherever_they_stand() -> None:
    first, second = "gke-c-default-pool-1234-abcd", "gke-c-default-pool-1234-abcd2"
    nodes = [node(name, f"gce://my-project-1/europe-west1-b/{name}") for name in (first, second)]
    ids = wanted("gke_my-project-1_europe-west1_c", *nodes)
    text = f"kube-proxy-{second} on {second}, kube-proxy-{first}; gcr.io/my-project-1/x"
    assert ids.replace(text) == (
        "kube-proxy-cloud-node-1 on cloud-node-1, kube-proxy-cloud-node-2; gcr.io/cloud-id-1/x"
    )
    assert ids.replace(first) == "cloud-node-2", "the same for as long as the run lasts"


def test_an_account_in_a_context_and_hosts_of_nodes() -> None:
    host = "ip-10-0-1-23.eu-west-1.compute.internal"
    ids = wanted("arn:aws:eks:eu-west-1:123456789012:cluster/x", node("i-name-1", "aws:///a/i-0abc1234def567890", host))
    assert ids.replace(f"account 123456789012 at {host}, 10.0.1.23") == "account cloud-id-1 at cloud-node-1, 10.0.1.23"


@pytest.mark.parametrize("name", ["node-1", "worker", "a"])
def test_names_that_might_be_anybodys_words_are_left(name: str) -> None:
    ids = wanted("c", node(name, f"openstack:///{name}"))
    replaced = ids.replace("worker at endpoint-node-1 and a; worker-a")
    assert replaced in ("worker at endpoint-node-1 and a; worker-a", "worker at endpoint-cloud-node-1 and a; worker-a")


def test_another_process_of_the_run_goes_on_with_the_same() -> None:
    name = "gke-c-pool-1234-abcd"
    ids = wanted("c", node(name, f"gce://my-project-1/z/{name}"), node(f"{name}2", f"gce://my-project-1/z/{name}2"))
    before = ids.replace(f"{name}2 aws:///a/i-0abc1234def567890")
    other = CloudIds()
    other.hear(json.loads(json.dumps(ids.known())))
    assert other.replace(f"{name}2 aws:///a/i-0abc1234def567890") == before == "cloud-node-1 cloud-id-1"
    assert other.replace(name) == "cloud-node-2"
    other.hear({})
    assert other.replace(name) == name


def test_nodes_that_tell_nothing_of_themselves() -> None:
    ids = wanted("c", {"metadata": {"name": "a"}}, node("b", ""))
    assert ids.replace("a b") == "a b"


# ------------------------------------------------------------------------------------------ hosts of --outside ssh:
def outside(name: str, user: str = "", *addresses: str, called: str = "") -> CloudIds:
    ids = wanted()
    ids.learn_host(name, user, addresses, called)
    return ids


def test_a_host_outside_by_whatever_it_is_called() -> None:
    ids = outside("jump.example.com", "me", called="jump-7")
    text = "machine,ssh:me@jump.example.com:2222; jump-7; host jump.example.com over ssh; ssh -p 2 jump.example.com"
    assert ids.replace(text) == (
        "machine,ssh:cloud-host-1:2222; cloud-host-1; host cloud-host-1 over ssh; ssh -p 2 cloud-host-1"
    )


@pytest.mark.parametrize("name", ["one", "cluster", "outside-1", "node"])
def test_a_host_that_could_be_any_word_is_replaced_as_a_host_only(name: str) -> None:
    said = outside(name, "me").replace(f"ssh:me@{name}, host {name} over ssh: {name} is any word")
    assert said == f"ssh:cloud-host-1, host cloud-host-1 over ssh: {name} is any word"


def test_its_public_addresses_become_addresses_of_documentation_and_others_stay() -> None:
    ids = outside("11.22.33.44", "me", "10.0.0.7", "2a00:1450:4001::7")
    ids.learn_host("11.22.33.44", "me", ["11.22.33.45"])
    assert ids.replace("host me@11.22.33.44 over ssh") == "host cloud-host-1 over ssh"
    seen = '["11.22.33.44", 4], ["::ffff:11.22.33.45", 4], ["10.0.0.7", 5], "2a00:1450:4001::7"'
    replaced = '["203.0.113.1", 4], ["::ffff:203.0.113.2", 4], ["10.0.0.7", 5], "2001:db8::1"'
    assert ids.replace(seen) == replaced
    others = "111.22.33.44 11.22.33.441 11.22.33.44.5 2a00:1450:4001::7:1 2a00:1450:4001::71"
    assert ids.replace(others) == others


def test_a_name_that_is_no_public_address_stays_evidence() -> None:
    ids = outside("10.0.0.7")
    assert ids.replace("ssh:10.0.0.7; seen 10.0.0.7") == "ssh:cloud-host-1; seen 10.0.0.7"


def test_hosts_go_with_the_rest_to_another_process() -> None:
    other = CloudIds()
    other.hear(json.loads(json.dumps(outside("jump.example.com", "", "11.22.33.44").known())))
    assert other.replace("jump.example.com 11.22.33.44") == "cloud-host-1 203.0.113.1"
