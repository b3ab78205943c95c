"""Where a reference can be read: rows cite in words, which stay right when addresses move."""

import re
from collections.abc import Iterator

KUBERNETES = "https://github.com/kubernetes"
DOCS = "https://kubernetes.io/docs"
DESIGN = f"{KUBERNETES}/design-proposals-archive/blob/main/network/external-lb-source-ip-preservation.md"

PLACES = (
    ("ESIPP design proposal", DESIGN),
    ("Kubernetes documentation, Cluster Networking", f"{DOCS}/concepts/cluster-administration/networking/"),
    ("Kubernetes documentation, Using Source IP", f"{DOCS}/tutorials/services/source-ip/"),
    ("Kubernetes documentation, DNS for Services", f"{DOCS}/concepts/services-networking/dns-pod-service/"),
    ("Kubernetes documentation, Server-Side Apply", f"{DOCS}/reference/using-api/server-side-apply/"),
    ("Kubernetes documentation, Declarative Management", f"{DOCS}/tasks/manage-kubernetes-objects/declarative-config/"),
    ("Kubernetes documentation, Nodes", f"{DOCS}/concepts/architecture/nodes/"),
    ("API: service.", f"{DOCS}/reference/kubernetes-api/service-resources/service-v1/"),
    ("The PROXY protocol", "https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt"),
)  # fmt: skip
"""How a reference begins, and the page that it means."""

ISSUE = re.compile(r"(?:kubernetes/kubernetes|Kubernetes changes:.*?)#(\d+)")
NUMBER = re.compile(r"#(\d{4,})\b")
PROPOSAL = re.compile(r"\bKEP-(\d+)\b")
SOURCE = re.compile(r"\bpkg/[\w/.-]*\w")


def links(references: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Kind (``issue``, ``tms`` for what a row is traced to), address and name of what references say.

    A reference without a page is not told here; it stands in the row's description anyway.
    """
    for text in references:
        for start, address in PLACES:
            if text.startswith(start):
                yield "tms", address, text
        if ISSUE.search(text):
            for number in NUMBER.findall(text):
                yield "issue", f"{KUBERNETES}/kubernetes/issues/{number}", f"kubernetes/kubernetes#{number}"
        for number in PROPOSAL.findall(text):  # a KEP's number is that of its issue
            yield "tms", f"{KUBERNETES}/enhancements/issues/{number}", f"KEP-{number}"
        for path in SOURCE.findall(text):
            yield "tms", f"{KUBERNETES}/kubernetes/tree/master/{path}", path
