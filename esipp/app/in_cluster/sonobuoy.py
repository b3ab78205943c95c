"""esipp as a plugin of Sonobuoy: runs, packs the report, and says where it is as Sonobuoy's worker expects it.

``python3 -m esipp.app.in_cluster.sonobuoy [OPTION…]``; the options are for ``esipp run``. The contract is Sonobuoy's
(documentation, "How Plugins Work", and the comment of ``GatherResults`` in its worker): results lie in the folder that
``SONOBUOY_RESULTS_DIR`` names, and the file ``done`` in it, which is written last, holds the path of the one file that
is sent. Of that tarball Sonobuoy reads ``junit.xml`` (``result-format: junit``).
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from esipp.app.in_cluster.archive import pack
from esipp.app.in_cluster.job import Asking
from esipp.base.errors import HarnessError
from esipp.report.junit import refuse

RESULTS = "/tmp/sonobuoy/results"  # noqa: S108 - Sonobuoy's own default
VARIABLE = "SONOBUOY_RESULTS_DIR"
ARCHIVE, DONE = "esipp.tar.gz", "done"


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Run and hand over; the verdict is in the JUnit file, so that the exit code is 0 once something is handed over."""
    options = list(sys.argv[1:] if arguments is None else arguments)
    results = Path(environment.get(VARIABLE) or RESULTS)
    results.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="esipp-"))
    promised = work / "refused" / "junit.xml"
    promised.parent.mkdir()
    # There, and red, whatever happens: a run that is refused has no folder, and one that is killed writes no report.
    refuse(str(promised), HarnessError("esipp run did not begin.", "the plugin's log says why."))
    with Asking() as asking:
        code, run = asking.run([*options, "--junit", str(promised)], work)
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
