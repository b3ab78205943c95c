"""Pseudonyms for cloud ids, used on request so that a report can be published.

Cloud ids are not secrets, but they identify the account: provider ids, account, project and subscription ids, names of
load balancers and API servers, and node names, which clouds derive from these. Within a run, an id always gets the same
pseudonym, so that a reader still sees what belongs together. Addresses stay: they are the evidence.

Hosts of ``--outside ssh:`` get pseudonyms, too: their names, accounts and public addresses. Evidence must still contain
valid addresses. A public address is therefore replaced by an address reserved for documentation (RFC 5737, RFC 3849).
"""

import ipaddress
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any

CLOUDS = (
    *("aws", "gce", "azure", "openstack", "digitalocean", "hcloud", "ibm", "ibmcloud", "oci", "vsphere", "linode"),
    *("exoscale", "scaleway", "alicloud", "equinixmetal", "vultr", "ovhcloud", "cloudstack", "nutanix", "huaweicloud"),
)
"""Schemes of clouds' provider ids; kind's and those of self-managed machines are not among them."""

_END = r"[^\s\"'\\,;<>()\[\]{}|]"
_HOST = r"(?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"
_IDS = re.compile(
    "|".join(
        (
            rf"\barn:aws[\w-]*:{_END}+",
            rf"(?<![\w+])(?:{'|'.join(CLOUDS)}):///?{_END}+",
            rf"(?i:/subscriptions/[0-9a-f-]{{36}}{_END}*)",
            r"\bgke_[a-z][a-z0-9:.-]+_[a-z0-9-]+_[a-z0-9-]+",
            r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,100}\.[a-z0-9-]{1,30}\.eksctl\.io\b",
            r"(?<![\w-])[\w-]{1,64}@[\w.-]{1,100}\.gserviceaccount\.com\b",
            rf"{_HOST}\.(?:amazonaws\.com(?:\.cn)?|azmk8s\.io|cloudapp\.azure\.com|azurecr\.io"
            r"|gke\.goog|hana\.ondemand\.com|k8s\.ondigitalocean\.com)\b",
            rf"{_HOST}\.c\.[a-z][\w.-]{{1,80}}?\.internal\b",
            r"\bMC_[\w.()-]*[\w-]",
            rf"\bocid1\.{_END}+",
            r"\b(?:i|vpc|subnet|eni|sg|vol|rtb|acl|igw|nat|lt|eipalloc|eipassoc)-(?:[0-9a-f]{17}|[0-9a-f]{8})(?![\w-])",
        )
    )
)
_HINTS = (
    *("arn:", "://", ":///", "/subscriptions/", "gke_", ".eksctl.io", "gserviceaccount", "amazonaws.com", "azmk8s.io"),
    *("cloudapp.azure", "azurecr.io", "gke.goog", "ondemand.com", "ondigitalocean", ".internal", "mc_", "ocid1."),
)
_RESOURCE = re.compile(r"\b(?:i|vpc|subnet|eni|sg|vol|rtb|acl|igw|nat|lt|eipalloc|eipassoc)-[0-9a-f]{8}")
_OURS = re.compile(r"(?:outside|host|pod|node|endpoint|bare|other|control|kind|esipp)(?:-[\w-]*)?")
"""esipp's own words. A host with such a name is not replaced everywhere."""

_STAND_INS = {4: ipaddress.ip_network("203.0.113.0/24"), 6: ipaddress.ip_network("2001:db8::/32")}
"""Addresses reserved for documentation, by IP version: no cluster and no client uses them."""


def _is_identifying(host: str) -> bool:
    """Whether a host's name is distinctive, so that no other word of a report can equal it."""
    parts = len(host) >= 6 and any(each.isdigit() or each == "-" for each in host)
    return ("." in host or parts) and not _OURS.fullmatch(host) and _address(host) is None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


class CloudIds:
    """The ids of one run and their pseudonyms. Nothing is replaced unless ``wanted``."""

    def __init__(self) -> None:
        self.wanted = False
        self._lock = threading.Lock()
        self._pseudonyms: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._spelled: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, context: str, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Register the account ids in a kubeconfig context's name, and the names and ids of a cloud's nodes."""
        found = re.findall(r"(?<=:)\d{12}(?=:)", context)
        project = re.match(r"gke_([a-z][a-z0-9-]{5,})_", context)
        names: dict[str, str] = dict.fromkeys([*found, *([project[1]] if project else [])], "id")
        for node in nodes:
            provider = str((node.get("spec") or {}).get("providerID") or "")
            scheme, _, rest = provider.partition("://")
            if scheme not in CLOUDS:
                continue
            parts = [each for each in rest.split("/") if each]
            name = str(node["metadata"]["name"])
            addresses = (node.get("status") or {}).get("addresses") or ()
            hosts = [str(each["address"]) for each in addresses if "IP" not in str(each.get("type"))]
            # a name such as "node-1" identifies no account, and might be part of any word
            names |= {each: "node" for each in (name, *hosts) if len(each) >= 6 and any(map(str.isdigit, each))}
            account = parts[:1] if scheme == "gce" else parts[1:2] if scheme == "azure" else parts[-1:]
            telling = (each for each in account if scheme == "gce" or any(map(str.isdigit, each)))
            names |= {each: "id" for each in telling if len(each) >= 6 and each not in names}
        with self._lock:
            self._names |= names
            self._compile()

    def learn_host(self, name: str, user: str = "", addresses: Iterable[str] = (), called: str = "") -> None:
        """Register a host outside the cluster: its name, account and addresses.

        Args:
            name: the name for ssh, which may be an alias or an address. A name that could be any other word (``one``)
                is replaced only where it appears as a host.
            user: the account, if it is named.
            addresses: addresses of the host, and its address as others see it; addresses that are not public stay.
            called: the hostname of the host.
        """
        stands_for = self._pseudonym("host", name)
        written = f"[{name}]" if ":" in name else name
        forms = {f"{start}{written}": f"{start}{stands_for}" for start in ("ssh:", "host ")}
        forms |= {f"{user}@{each}": stands_for for each in (name, written) if user}
        forms |= {each: stands_for for each in (name, called) if _is_identifying(each)}
        public = [found for each in (name, *addresses) if (found := _address(each)) is not None and found.is_global]
        with self._lock:
            for address in dict.fromkeys(map(str, public)):
                if address not in self._spelled:
                    version = ipaddress.ip_address(address).version
                    number = 1 + sum((":" in each) == (version == 6) for each in self._spelled if _address(each))
                    self._spelled[address] = str(_STAND_INS[version][number])
            self._spelled |= forms
            self._compile()

    def known(self) -> dict[str, Any]:
        """All registered ids and pseudonyms, for another process of the run; see ``hear``."""
        with self._lock:
            known = {"names": self._names, "pseudonyms": self._pseudonyms, "spelled": self._spelled}
            return {"wanted": self.wanted, **{name: dict(each) for name, each in known.items()}}

    def hear(self, known: Mapping[str, Any]) -> None:
        """Take over the ids and pseudonyms of another process."""
        with self._lock:
            self.wanted = bool(known.get("wanted"))
            self._names |= known.get("names") or {}
            self._pseudonyms |= known.get("pseudonyms") or {}
            self._spelled |= known.get("spelled") or {}
            self._compile()

    def _compile(self) -> None:
        longest = sorted({*self._names, *self._spelled}, key=len, reverse=True)
        one = "|".join(map(_whole, longest))
        self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{one})(?![A-Za-z0-9])") if longest else None

    def replace(self, text: str) -> str:
        """The text with pseudonyms, if requested; JSON remains valid JSON."""
        if not self.wanted:
            return text
        small = text.lower()
        if any(hint in small for hint in _HINTS) or _RESOURCE.search(text):
            text = _IDS.sub(lambda found: self._pseudonym("id", found[0]), text)
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._stand_in(found[0]), text)
        return text

    def _stand_in(self, name: str) -> str:
        return self._spelled.get(name) or self._pseudonym(self._names[name], name)

    def _pseudonym(self, kind: str, identity: str) -> str:
        with self._lock:
            known = self._pseudonyms
            key = identity.casefold()
            if key not in known:
                number = sum(1 for each in known.values() if each.startswith(f"cloud-{kind}-")) + 1
                known[key] = f"cloud-{kind}-{number}"
            return known[key]


def _whole(name: str) -> str:
    """A pattern for a name; for an address, it does not match within a longer one."""
    if _address(name) is None:
        return re.escape(name)
    return rf"(?<![:.]){re.escape(name)}(?!:[0-9A-Fa-f:])" if ":" in name else rf"(?<!\d\.){re.escape(name)}(?!\.\d)"
