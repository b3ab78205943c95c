"""A fast loader of images into nodes: it skips layers that every node already has.

`kind load docker-image` sends all layers to each node. The nodes' containerd has those of the base image, so an archive
with the manifest, the configuration and the other layers is enough; containerd finds the rest by digest.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any


def thin(saved: Path, present: list[str], reference: str, out: Path) -> None:
    """Write an OCI archive from a `docker save` archive, without the layers with diff ids in `present`."""
    with tarfile.open(saved) as source, tarfile.open(out, "w") as archive:

        def member(name: str) -> bytes:
            file = source.extractfile(name)
            assert file
            return file.read()

        def blob(content: bytes, kind: str) -> dict[str, Any]:
            descriptor = describe(kind, hashlib.sha256(content).hexdigest(), len(content))
            add(f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}", content)
            return descriptor

        def add(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))

        image = json.loads(member("manifest.json"))[0]
        configuration = member(image["Config"])
        layers = []
        for name, identity in zip(image["Layers"], json.loads(configuration)["rootfs"]["diff_ids"], strict=True):
            if identity in present:
                layers.append(describe("layer.v1.tar", identity.removeprefix("sha256:"), source.getmember(name).size))
            else:
                layers.append(blob(member(name), "layer.v1.tar"))
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(configuration, "config.v1+json"),
            "layers": layers,
        }
        top = blob(json.dumps(manifest).encode(), "manifest.v1+json")
        top["annotations"] = {"io.containerd.image.name": reference}
        add("index.json", json.dumps({"schemaVersion": 2, "manifests": [top]}).encode())
        add("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())


def describe(kind: str, digest: str, size: int) -> dict[str, Any]:
    """Return an OCI descriptor."""
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": size}
