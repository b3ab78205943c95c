"""Diagnosis of health check failures: where to look first. A hint, not a proof. Pure."""

from esipp.checks.check import is_about
from esipp.checks.health import About, HealthAnswer, HealthAnswerCheck, HealthScenarioCheck
from esipp.checks.observation import Outcome, Verdict

NO_STATUS = {
    Outcome.REFUSED.value: "nothing listens at the node's health-check node port in this IP family: is its service "
    "proxy alive, and does it listen on all addresses of both families?",
    "timed out": "the health check does not answer in time: a packet filter drops packets to its port, or its "
    "listener hangs (is the node overloaded?)",
}
"""Where to look if a health check gives no HTTP status, by the way in which it fails."""

STATUSES = ("200", "503")
SOMETHING_ELSE = "another process answers at the health-check node port: which one listens there?"


def diagnose(check: HealthAnswerCheck | HealthScenarioCheck, verdict: Verdict) -> str:
    """Where to look first after a failure: by the status, else by what makes the check fail."""
    of_status = is_about(check, HealthAnswer) and check.subject.about is About.STATUS
    return (_of_a_status(verdict) if of_status else "") or check.fails_if


def _of_a_status(verdict: Verdict) -> str:
    """Where to look if a health check gives neither 200 nor 503."""
    for words in verdict.tally:
        if words in NO_STATUS:
            return NO_STATUS[words]
        if words.isdigit() and words not in STATUSES:
            return SOMETHING_ELSE
    return ""
