"""Selection of the proxy for the API server, by kubectl's rules, so that esipp and kubectl use the same one.

The client library differs in details: it obeys ALL_PROXY, uses proxies for loopback addresses, and lets NO_PROXY
override a kubeconfig's proxy-url. kubectl's rules are those of golang.org/x/net/http/httpproxy. Only requests to the
API server use a proxy.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

PORTS = {"http": 80, "https": 443}


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """The URL of the proxy for a server's URL, from the environment; None for a direct connection."""
    url = urlsplit(server)
    name = f"{url.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name) or ""
    if not proxy or not url.hostname:
        return None
    excepted = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if _is_excepted(url.hostname.lower(), url.port or PORTS.get(url.scheme, 0), excepted):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def proxy_hint(environment: Mapping[str, str]) -> str:
    """A hint if a server does not answer and the environment names a proxy; otherwise empty."""
    names = sorted(name for name, value in environment.items() if value and name.lower() == "https_proxy")
    if not names:
        return ""
    return f" {names[0]} is set: check that this proxy reaches the server, or add the server to NO_PROXY."


def account_at(proxy: str) -> str:
    """``user:password`` of a proxy's URL; empty if it has none."""
    url = urlsplit(proxy)
    return f"{unquote(url.username)}:{unquote(url.password or '')}" if url.username else ""


def _is_excepted(host: str, port: int, excepted: str) -> bool:
    """Whether a host needs no proxy: this machine, or a host in NO_PROXY."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_fits(entry.strip().lower(), host, port, address) for entry in excepted.split(","))


def _fits(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """Whether an entry of NO_PROXY matches: ``*``, a CIDR, an address or a domain; the last two may have a port."""
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted = _split(entry)
    if not name or (wanted and wanted != str(port)):
        return False
    if address is not None:
        return _address(name) == address
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split(entry: str) -> tuple[str, str]:
    """Name and port of an entry; an IPv6 address with a port is in brackets."""
    if entry.startswith("["):
        name, _, port = entry[1:].partition("]")
        return name, port.removeprefix(":")
    name, _, port = entry.partition(":")
    return (entry, "") if ":" in port else (name, port)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
