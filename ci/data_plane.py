"""The data plane of a lane: network add-on, service proxy, and their settings.

The lane names both, and its kind config must fit. With kind's own add-on or kube-proxy in addition, the cluster would
have another data plane than the lane says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ci.step import SetupError

NETWORK, PROXY, VALUES = "network", "service_proxy", "cilium_values"
KEYS = (NETWORK, PROXY, VALUES)
"""The keys of a lane that this module reads, all optional."""

BUILT_IN, CILIUM, CALICO, KUBE_PROXY = "built-in", "cilium", "calico", "kube-proxy"
NETWORKS = (BUILT_IN, CILIUM, CALICO)
PROXIES = (KUBE_PROXY, CILIUM)


@dataclass(frozen=True)
class DataPlane:
    """The components that carry a cluster's packets.

    Args:
        network: ``built-in`` is kind's own add-on, or on the hermetic path `network_addon.py`;
            ``calico`` is ``published`` (`ci/published.py`).
        service_proxy: ``kube-proxy``, in the mode of the kind config, or ``cilium``.
        cilium_values: values of its chart, in addition to those of all lanes (`ci/cilium-values.yaml`).
    """

    network: str = BUILT_IN
    service_proxy: str = KUBE_PROXY
    cilium_values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_cilium(self) -> bool:
        """Whether the lane uses Cilium."""
        return CILIUM in (self.network, self.service_proxy)


def read(file: str, data: Mapping[str, Any], kind_config: Path) -> DataPlane:
    """Read a lane's data plane, and hold it against its kind config.

    Raises:
        SetupError: it makes no sense, or the kind config has another one.
    """
    network = _one_of(file, data, NETWORK, NETWORKS)
    proxy = _one_of(file, data, PROXY, PROXIES)
    values = data.get(VALUES, {})
    if not isinstance(values, dict):
        raise SetupError(
            f"ci/lanes/{file}: '{VALUES}' is not a mapping.", "use the chart's keys: {loadBalancer: {mode: dsr}}"
        )
    if (network == CILIUM) != (proxy == CILIUM):
        raise SetupError(
            f"ci/lanes/{file}: the network '{network}' with the service proxy '{proxy}' is not supported.",
            f"use cilium for both {NETWORK} and {PROXY}, or for neither.",
        )
    if values and network != CILIUM:
        raise SetupError(f"ci/lanes/{file} has '{VALUES}', but no Cilium.", f"{NETWORK}: {CILIUM}")
    networking = (yaml.safe_load(kind_config.read_text()) or {}).get("networking") or {}
    for key, wanted, found in (
        ("disableDefaultCNI", network != BUILT_IN, networking.get("disableDefaultCNI", False)),
        ("kubeProxyMode", proxy != KUBE_PROXY, networking.get("kubeProxyMode") == "none"),
    ):
        if found is not wanted:
            raise SetupError(
                f"ci/lanes/{file}: kind-configs/{kind_config.name} and '{NETWORK}: {network}', '{PROXY}: {proxy}' "
                f"do not fit: see {key} there.",
                "disableDefaultCNI is true with another network than the built-in one, kubeProxyMode none with Cilium",
            )
    return DataPlane(network, proxy, values)


def _one_of(file: str, data: Mapping[str, Any], key: str, known: tuple[str, ...]) -> str:
    found = data.get(key, known[0])
    if found not in known:
        raise SetupError(f"ci/lanes/{file}: '{key}' is '{found}'.", f"known: {', '.join(known)}")
    return str(found)
