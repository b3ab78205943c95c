"""Tools that the official path builds from Go modules: helm, and Cilium's chart."""

import json
import os
import shutil
from pathlib import Path

from ci.cilium import Chart
from ci.hermetic.golang import MODULES
from ci.places import versions
from ci.step import Journal, SetupError, output

MODULE, CHART = "github.com/cilium/cilium", "install/kubernetes/cilium"
DOWNLOAD_SECONDS = 600


def chart(folder: Path, journal: Journal) -> Chart:
    """Return helm, from PATH or built into ``folder``, and the chart's folder in Go's cache.

    Raises:
        SetupError: Go is missing, or no module proxy is reachable.
    """
    go = shutil.which("go")
    if not go:
        raise SetupError("Cilium's chart comes from its Go module, but Go is not installed.", "install Go.")
    with journal.step(f"fetch Cilium {versions()['cilium']['version']}'s chart and helm") as step:
        step.hint = "check that the Go module proxy is reachable."
        helm = shutil.which("helm")
        if not helm:
            env = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
            step.run([go, "install", f"helm.sh/helm/v3/cmd/helm@{versions()['helm']['version']}"], env=env)
            helm = str(folder / "helm")
        # Go holds what it downloads there against go.sum.
        answer = output([go, "-C", MODULES / "cilium", "mod", "download", "-json", MODULE], timeout=DOWNLOAD_SECONDS)
        where = str(json.loads(answer).get("Dir") or "") if answer else ""
        if not where or not (Path(where) / CHART).is_dir():
            raise SetupError(f"The Go module {MODULE} is not available.", step.hint, step.log)
    return Chart(Path(helm), Path(where) / CHART)
