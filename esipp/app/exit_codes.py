"""What ``--help`` says of exit codes, one text a kind of command, each with those only that it can give."""

OF_A_RUN = """exit codes:
  0  conformant, also with differences that the API allows; PARTIAL, if core checks were left out; or known defects
     that --accept-known-defects accepts: the last lines say which
  1  not conformant: a check fails or is flaky (--fail-on), or a core check differs by a known defect or finding
  2  interrupted
  3  the harness failed, or a core check, or more than 5 % of the extended ones, could not be decided
  4  wrong usage, the cluster is not fit to be asked (nothing was created), or it lacks what --require names
  5  no check was selected
"""
"""``run``, and with it pytest on the suites."""

OF_A_JUDGEMENT = """exit codes:
  0  conformant, also with differences that the API allows; PARTIAL, if core checks were left out; or known defects
     that the run accepted: the last line says which
  1  not conformant: a check fails or is flaky, or a core check differs by a known defect or finding
  2  interrupted, now or when the run was made
  3  the harness failed, too much could not be decided, or the ledger is not whole
  4  wrong usage, or there is no ledger that this esipp reads; or the cluster was not fit to be asked
  5  no check could be judged
"""
"""``judge``: today's checks on what was seen then."""

OF_CHECKS = """exit codes:
  0  told
  2  interrupted
  4  wrong usage, or no check is called so
"""
"""``list`` and ``explain``: nothing is asked of a cluster, and nothing is judged."""

OF_LOAD_BALANCERS = """exit codes:
  0  told
  2  interrupted
  4  wrong usage, or there is no such load balancer, or the file is no profile of one
"""
"""``load-balancers`` and ``plan``: as those of checks."""

OF_CLEANING = """exit codes:
  0  nothing is left, but for what is spared, each with a reason; or --dry-run told what would go
  2  interrupted
  3  something could not be removed or undone
  4  wrong usage, or the cluster does not answer or does not let us in
"""
"""``clean``."""

OF_A_DOCTOR = """exit codes:
  0  fit: a run could begin; there may be warnings
  2  interrupted
  4  wrong usage, or not fit: a line says 'no'
"""
"""``doctor``: nothing is created, and nothing is judged."""
