"""The exit codes in ``--help``, one text for each kind of command."""

OF_A_RUN = """exit codes:
  0  conformant, possibly with differences that the API allows; or PARTIAL, because core checks were left out; or
     with known defects that --accept-known-defects accepts, or with failures that --waivers covers: the last lines
     say which
  1  not conformant: a check fails or is flaky (--fail-on), or a core check has a known defect or finding; or a waiver
     is expired or covers no failure
  2  interrupted
  3  the harness failed; or a core check, or more than 5 % of the extended checks, could not be decided
  4  wrong usage; or the cluster is not fit for a run (nothing was created), or lacks what --require names
  5  no check was selected
"""
"""Exit codes of ``run``, and of pytest on the suites."""

OF_A_JUDGEMENT = """exit codes:
  0  conformant, possibly with differences that the API allows; or PARTIAL, because core checks were left out; or
     with known defects or failures that the run accepted: the last line says which
  1  not conformant: a check fails or is flaky, or a core check has a known defect or finding; or a waiver is stale
  2  interrupted, either this command or the run
  3  the harness failed, too many checks could not be decided, or the ledger is incomplete
  4  wrong usage; or this esipp can read no ledger there; or the cluster was not fit for a run
  5  no check could be judged
"""
"""Exit codes of ``judge``."""

OF_CHECKS = """exit codes:
  0  success
  2  interrupted
  4  wrong usage, or no check matches
"""
"""Exit codes of ``list`` and ``explain``, which use no cluster and judge nothing."""

OF_LOAD_BALANCERS = """exit codes:
  0  success
  2  interrupted
  4  wrong usage, or an unknown load balancer, or the file is not a valid profile
"""
"""Exit codes of ``load-balancers`` and ``plan``."""

OF_IMAGES = """exit codes:
  0  success
  2  interrupted
  4  wrong usage; or the sources of the images are missing, docker fails, or the registry refuses the image
"""
"""Exit codes of ``images``."""

OF_COMPLETION = """exit codes:
  0  success
  2  interrupted
  4  wrong usage, or argcomplete is not installed
"""
"""Exit codes of ``completion``."""

OF_INIT = """exit codes:
  0  success
  2  interrupted
  4  wrong usage; or the cluster is not fit for a run, or the file exists
"""
"""Exit codes of ``init``."""

OF_SIGNING = """exit codes:
  0  signed
  2  interrupted
  4  wrong usage; or there is no such run, it has no statement, openssl cannot use the key, or Sigstore does not sign
"""
"""Exit codes of ``sign``."""

OF_VERIFYING = """exit codes:
  0  verified: the signature is of this key or identity, and the statement says what the ledger in its folder says
  1  not verified
  2  interrupted
  4  wrong usage; or there is no such run or signed statement, openssl cannot use the key, or Sigstore's keys are not
     to be had
"""
"""Exit codes of ``verify``."""

OF_CLEANING = """exit codes:
  0  nothing is left except what clean keeps, each with a reason; or --dry-run printed what would be removed
  2  interrupted
  3  something could not be removed or undone
  4  wrong usage, or the cluster does not answer or denies access
"""
"""Exit codes of ``clean``."""

OF_A_DOCTOR = """exit codes:
  0  fit: a run can begin; there may be warnings
  2  interrupted
  4  wrong usage, or not fit: at least one line says 'no'
"""
"""Exit codes of ``doctor``, which creates nothing and judges nothing."""
