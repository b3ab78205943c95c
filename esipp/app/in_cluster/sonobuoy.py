"""The Sonobuoy plugin: runs esipp, packs the report, and hands it over to Sonobuoy's worker.

``python3 -m esipp.app.in_cluster.sonobuoy [OPTION…]``; the options are for ``esipp run``. Sonobuoy defines the contract
(documentation, "How Plugins Work", and the comment of ``GatherResults`` in its worker). ``SONOBUOY_RESULTS_DIR`` names
the folder of the results. The plugin writes the file ``done`` there last; it contains the path of the one file to send.
Sonobuoy reads ``junit.xml`` from that tarball (``result-format: junit``).
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from esipp.app.in_cluster.archive import pack
from esipp.app.in_cluster.job import ChildRun
from esipp.base.errors import HarnessError
from esipp.report.junit import refuse

RESULTS = "/tmp/sonobuoy/results"  # noqa: S108 - Sonobuoy's own default
VARIABLE = "SONOBUOY_RESULTS_DIR"
ARCHIVE, DONE = "esipp.tar.gz", "done"


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Run and hand over the report. The exit code is then 0, because the JUnit file contains the verdict."""
    options = list(sys.argv[1:] if arguments is None else arguments)
    results = Path(environment.get(VARIABLE) or RESULTS)
    results.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="esipp-"))
    promised = work / "refused" / "junit.xml"
    promised.parent.mkdir()
    # This file exists and fails from the start: a refused run has no folder, and a killed one writes no report.
    refuse(str(promised), HarnessError("esipp run did not begin.", "see the plugin's log."))
    with ChildRun() as child:
        code, run = child.run([*options, "--junit", str(promised)], work)
        if run is not None and not (run / promised.name).exists():
            shutil.copy(promised, run)
        pack(run or promised.parent, results / ARCHIVE, code)
        half = results / f"{DONE}.half"
        half.write_text(str(results / ARCHIVE), encoding="utf-8")
        half.replace(results / DONE)
    print(f"esipp ended with exit code {code}; {results / ARCHIVE} is for Sonobuoy's worker.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
