"""A run: its settings, identity, folder, ledger and clock. It records verdicts and makes none."""

import contextlib
import os
import secrets
import shlex
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from esipp import __version__
from esipp.base.client_places import keep_private, read_places
from esipp.base.customisation import NOTHING, Customisation
from esipp.base.echo_token import TOKEN
from esipp.base.errors import EsippError, ExitCode, PreflightError
from esipp.base.implementation import Pairs, as_json
from esipp.base.redaction import KNOWN, learn_cloud, redact
from esipp.checks.check import Binding, Check, Feature, Verdict
from esipp.checks.disruption import Disruption
from esipp.checks.exclusions import Exclusions, as_words
from esipp.checks.required_features import NOT_LOOKED_FOR, check_required, refusal
from esipp.checks.waivers import NONE, Waiver, Waivers
from esipp.judging.scenario import where_to_look
from esipp.judging.schedule import PlannedEvent
from esipp.ledger.codec import record_of
from esipp.ledger.conclusion import Conclusion, conclude
from esipp.ledger.file import SCHEMA_VERSION, Ledger
from esipp.ledger.progress import Progress
from esipp.ledger.recorded_checks import check_record

DEFAULT_NODES = 10
DEFAULT_SAMPLES = 200
DEFAULT_MOVES = 30

REQUEST_TIMEOUT = 30.0
"""The usual time limit of one request to the API server, in seconds."""


@dataclass(frozen=True)
class Settings:
    """What a user says of a run; ``wishes`` is what is wanted of all that it creates, and of the nodes it uses.

    ``in_cluster`` says that context and kubeconfig are the own ones of the pod that the run is in. ``outside`` is where
    clients outside stand: ``auto`` (containers on kind's docker network if the nodes are such), ``none``, or places
    with commas between them (``probing.places``). ``without`` are features to be taken as missing, ``exclude`` checks
    to be left out, with a reason each (exclusions.py). ``samples`` is the number of connections a path gets in the
    judged window, ``moves`` how often each load balancer has to follow a pod up, and as often down; ``seed`` chooses
    which. ``fail_on`` says whose failures bind, ``accept_known_defects`` that known defects end with exit code 0;
    ``require`` are features without which the cluster is refused (required_features.py). ``allow_disruptive``
    allows what others on the cluster would notice; ``kube_proxy_image`` is another image of kube-proxy for that, and
    ``network_agent_image`` one of Cilium's agent.
    ``long`` asks what takes long; ``redact_cloud_ids`` puts pseudonyms for what names a cloud's account.
    ``implementation`` is what the user says was tested. ``sample_nodes`` is how many nodes carry an agent, at most
    (sampling.py). ``source_ranges`` is who may use the VIPs (``source_ranges.decide``). ``provider`` is the load
    balancer that the cluster is said to have (a profile's name or file); empty for what is found. ``bound`` is how many
    seconds the cluster's own load balancer may take to steer away from a node, as the user says; else None.
    ``parallel_load_balancers`` is how many Services of the cluster's own load balancer stand at the same time, at most;
    None for all that are needed. ``time_budget`` is how many seconds the run may take, ``keep`` leaves its namespace,
    ``pause_on_failure`` waits for somebody to look. ``waivers`` are the failures that somebody answers for, from
    ``waivers_file``. ``timeout_factor`` is how many times as long esipp waits for what is its own. ``as_user`` is whom
    requests to the API server impersonate, and ``request_timeout`` is the time limit of one in seconds. ``baseline``
    is an earlier run that reports compare this one with.
    """

    context: str
    kubeconfig: str | None = None
    image: str = ""
    lane: str = "run"
    out: str | None = None
    outside: str = "auto"
    without: tuple[str, ...] = ()
    samples: int = DEFAULT_SAMPLES
    fail_on: Binding = Binding.EXTENDED
    accept_known_defects: bool = False
    require: tuple[str, ...] = ()
    moves: int = DEFAULT_MOVES
    seed: int = 0
    allow_disruptive: bool = False
    long: bool = False
    redact_cloud_ids: bool = False
    customisation: Customisation = NOTHING
    implementation: Pairs = ()
    source_ranges: str = "auto"
    provider: str = ""
    in_cluster: bool = False
    exclude: Exclusions = ()
    sample_nodes: int = DEFAULT_NODES
    bound: float | None = None
    parallel_load_balancers: int | None = None
    waivers_file: str = ""
    waivers: tuple[Waiver, ...] = ()
    time_budget: float | None = None
    keep: bool = False
    pause_on_failure: bool = False
    timeout_factor: float = 1.0
    as_user: str = ""
    request_timeout: float = REQUEST_TIMEOUT
    baseline: Path | None = None
    kube_proxy_image: str = ""
    network_agent_image: str = ""

    @property
    def images(self) -> Mapping[Disruption, str]:
        """The other images of agents, each for a disruption; empty ones are not named."""
        return {
            Disruption.PROXY_UPGRADED: self.kube_proxy_image,
            Disruption.NETWORK_AGENT_UPGRADED: self.network_agent_image,
        }

    @property
    def repeat(self) -> str:
        """The command that repeats this run, up to the checks; it starts with $ESIPP_REPEAT where that is set."""
        cluster = "--in-cluster" if self.in_cluster else f"--context {shlex.quote(self.context)}"
        start = os.environ.get("ESIPP_REPEAT") or f"esipp run {cluster}"
        kubeconfig = None if self.in_cluster else self.kubeconfig
        values = {"--kubeconfig": kubeconfig, "--outside": self.outside, "--samples": str(self.samples)}
        values["--moves"] = str(self.moves)
        usual = {"--kubeconfig": None, "--outside": "auto", "--samples": str(DEFAULT_SAMPLES)}
        usual["--moves"] = str(DEFAULT_MOVES)
        values["--image"], usual["--image"] = self.image, os.environ.get("ESIPP_IMAGE", "")
        for name, image in (
            ("--kube-proxy-image", self.kube_proxy_image),
            ("--network-agent-image", self.network_agent_image),
        ):
            variable = f"ESIPP{name.removeprefix('-').replace('-', '_').upper()}"
            values[name], usual[name] = image, os.environ.get(variable, "")
        values["--fail-on"], usual["--fail-on"] = self.fail_on.value, Binding.EXTENDED.value
        words = [f"{name} {shlex.quote(str(value))}" for name, value in values.items() if value != usual[name]]
        words += [f"--as {shlex.quote(self.as_user)}"] if self.as_user else []
        slow = self.request_timeout != REQUEST_TIMEOUT
        words += [f"--request-timeout {self.request_timeout:g}s"] if slow else []
        words += [f"--sample-nodes {self.sample_nodes}"] if self.sample_nodes != DEFAULT_NODES else []
        words += ["--accept-known-defects"] if self.accept_known_defects else []
        most = self.parallel_load_balancers
        words += [f"--parallel-load-balancers {most}"] if most is not None else []
        words += [f"--waivers {shlex.quote(self.waivers_file)}"] if self.waivers_file else []
        words += ["--allow-disruptive"] if self.allow_disruptive else []
        words += ["--long"] if self.long else []
        words += [shlex.quote(word) for word in self.customisation.words()]
        words += ["--redact-cloud-ids"] if self.redact_cloud_ids else []
        words += [f"--implementation {shlex.quote(f'{name}={value}')}" for name, value in self.implementation]
        words += [f"--source-ranges {self.source_ranges}"] if self.source_ranges != "auto" else []
        words += [f"--provider {shlex.quote(self.provider)}"] if self.provider else []
        words += [f"--bound {self.bound:g}"] if self.bound is not None else []
        words += [f"--timeout-factor {self.timeout_factor:g}"] if self.timeout_factor != 1.0 else []
        words += [f"--without {name}" for name in self.without]
        words += [f"--require {name}" for name in self.require]
        words += [f"--exclude {shlex.quote(word)}" for word in as_words(self.exclude)]
        return " ".join([start, *words])

    @property
    def clean(self) -> str:
        """The command that cleans up after such runs; it starts like ``repeat`` if something wraps esipp."""
        start = os.environ.get("ESIPP_REPEAT", "")
        cluster = "--in-cluster" if self.in_cluster else f"--context {shlex.quote(self.context)}"
        command = start.replace("esipp run", "esipp clean", 1) if "esipp run" in start else f"esipp clean {cluster}"
        command += f" --kubeconfig {shlex.quote(self.kubeconfig)}" if self.kubeconfig and not self.in_cluster else ""
        return command + (f" --as {shlex.quote(self.as_user)}" if self.as_user else "")


def know_cloud(settings: Settings) -> None:
    """Have cloud ids and hosts outside replaced in all that is written from now on, if that is wanted."""
    KNOWN.cloud.wanted = settings.redact_cloud_ids
    learn_cloud(settings.context, ())
    with contextlib.suppress(PreflightError):  # preflight reports what makes no sense
        keep_private(read_places(settings.outside) or ())


@dataclass
class Run:
    """A run in progress.

    ``say`` prints one line of progress; ``verdicts`` are filled by the judge, ``seconds`` by ``phase``;
    ``trouble`` is the first failure of the harness, which ends the
    run, ``later`` are those while it ended, such as something that could not be removed. ``asked`` are the suites and
    checks that were asked for, as on the command line. ``interrupted`` is set by SIGINT, SIGTERM and SIGHUP.
    ``progress`` is how far it is; ``shows_phases`` that whoever shows it tells phases from there, so that they need
    not be said.
    """

    settings: Settings
    say: Callable[[str], None] = print
    id: str = ""
    folder: Path = Path()
    ledger: Ledger | None = None
    asked: tuple[str, ...] = ()
    checks: list[Check] = field(default_factory=list)
    left_out: int = 0
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    trouble: EsippError | None = None
    later: list[EsippError] = field(default_factory=list)
    interrupted: bool = False
    waivers: Waivers = NONE
    _by_id: dict[str, Check] = field(default_factory=dict)
    _notes: set[tuple[str, str]] = field(default_factory=set)
    _looked_for: set[str] = field(default_factory=set)
    progress: Progress = field(default_factory=Progress)
    shows_phases: bool = False

    def begin(self, checks: list[Check], left_out: int) -> None:
        """Open the run's folder and ledger.

        Raises:
            PreflightError: the folder cannot be written, or its disk is full.
        """
        self.checks, self.left_out = checks, left_out
        self._by_id = {check.id: check for check in checks}
        self.progress.begin(checks, self.settings.samples, self.settings.moves)
        know_cloud(self.settings)
        KNOWN.learn("token", TOKEN)
        now = time.gmtime()
        self.id = f"{time.strftime('%m%d-%H%M%S', now)}-{secrets.token_hex(2)}"
        self.waivers = Waivers(self.settings.waivers, time.strftime("%Y-%m-%d", now))
        stamp = time.strftime("%Y%m%dT%H%M%SZ", now)
        runs = Path("runs")
        self.folder = Path(self.settings.out) if self.settings.out else runs / f"{stamp}-{self.settings.lane}"
        if not self.settings.out and self.folder.exists():
            self.folder = self.folder.with_name(f"{self.folder.name}-{self.id[-4:]}")
        self.ledger = Ledger(self.folder / "ledger.jsonl")
        self.ledger.write(
            "header",
            schema=SCHEMA_VERSION,
            suite=__version__,
            run=self.id,
            lane=self.settings.lane,
            context=self.settings.context,
            image=self.settings.image,
            samples=self.settings.samples,
            outside=self.settings.outside,
            without=list(self.settings.without),
            fail_on=self.settings.fail_on.value,
            accept_known_defects=self.settings.accept_known_defects,
            require=list(self.settings.require),
            moves=self.settings.moves,
            seed=self.settings.seed,
            created_with=self.settings.customisation.words(),
            allow_disruptive=self.settings.allow_disruptive,
            redact_cloud_ids=self.settings.redact_cloud_ids,
            implementation=as_json(self.settings.implementation),
            provider=self.settings.provider,
            bound=self.settings.bound,
            command=self.repeat,
            asked=list(self.asked),
            rows=[check_record(check) for check in checks],
            left_out_core_rows=left_out,
            **({"waivers": self.waivers.as_json()} if self.waivers.entries else {}),
        )
        if not self.settings.out:
            point(runs / "latest", self.folder.name)

    def keep_fault(self) -> Path:
        """Write the current exception to a file of the run, because pytest's capture would hide it. Return its path."""
        kept = self.folder / "fault.txt"
        with contextlib.suppress(OSError), kept.open("a", encoding="utf-8") as file:
            file.write(redact(traceback.format_exc()))
        return kept

    def record(self, record: str, **fields: object) -> None:
        """Write a record to the ledger."""
        if self.ledger is not None:
            self.ledger.write(record, **fields)

    def fact(self, name: str, value: str, decided: str) -> None:
        """Write down something that was found about the cluster, and how that was decided."""
        self.record("fact", name=name, value=value, decided=decided)

    def feature(self, name: str, feature: Feature) -> None:
        """Write down whether the cluster has a feature.

        Raises:
            PreflightError: it is required, and missing.
        """
        self.record("feature", name=name, present=feature.present, why=feature.why, ours=feature.ours)
        self._looked_for.add(name)
        check_required({name} & {*self.settings.require}, {name: feature})

    def note(self, about: str, note: str) -> None:
        """Write down, and say, something on which no verdict rests; once, however often it is found."""
        if (about, note) not in self._notes:
            self._notes.add((about, note))
            self.record("note", about=about, note=note)
            self.say(f"{about}: {note}")

    @property
    def repeat(self) -> str:
        """The command that repeats this run, up to the checks; the seed chooses at least the roles of the nodes."""
        return f"{self.settings.repeat} --seed {self.settings.seed}"

    def evidence(self, suite: str, kind: str, **data: object) -> None:
        """Record evidence that is no observation of a path."""
        self.record("evidence", suite=suite, kind=kind, data=data)

    @contextlib.contextmanager
    def phase(self, name: str, what: str, already: float = 0.0) -> Iterator[None]:
        """Announce and time a part of the run; ``already`` are its seconds before the run began."""
        if not self.shows_phases:
            self.say(f"{name}: {what} ...")
        self.progress.phase_begins(name, what)
        began, whole = time.monotonic(), False
        try:
            yield
            whole = True
        finally:
            spent = already + time.monotonic() - began
            self.progress.phase_ends(name, whole=whole)
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
        self.record("phase", name=name, seconds=round(spent, 3))
        if not self.shows_phases:
            self.say(f"{name}: done after {spent:.1f} s")

    @contextlib.contextmanager
    def event(self, phase: str, event: PlannedEvent) -> Iterator[None]:
        """Time an event of a phase, whatever comes of it."""
        began, since = time.time(), time.monotonic()
        try:
            yield
        finally:
            seconds = round(time.monotonic() - since, 3)
            touches = event.touches.value
            self.record("event", phase=phase, name=event.name, touches=touches, began=round(began, 3), seconds=seconds)

    def keep(self, verdict: Verdict) -> None:
        """Record the verdict on a check, with its diagnosis."""
        check = self._by_id.get(verdict.check_id)
        verdict = replace(verdict, likely=where_to_look(check, verdict) if check else "")
        verdict = replace(verdict, observed=redact(verdict.observed), reason=redact(verdict.reason))
        self.verdicts[verdict.check_id] = verdict
        self.progress.judged(verdict.check_id, verdict.status)
        self.record("verdict", **record_of(verdict))

    def conclude(self) -> Conclusion:
        """The conclusion of all verdicts and of the harness itself: a result and an exit code."""
        said = conclude(
            self.verdicts.values(),
            self.left_out,
            self.settings.fail_on,
            accept_known_defects=self.settings.accept_known_defects,
            waivers=self.waivers,
        )
        if len(self.verdicts) < len(self.checks):
            failed = said.exit_code is ExitCode.NOT_CONFORMANT  # a check that failed is not undone by others left open
            why = "not every check was judged" + (f"; so far, {said.why}" if failed else "")
            code = said.exit_code if failed else ExitCode.HARNESS
            said = replace(said, result="incomplete", exit_code=code, why=why)
        trouble = self.trouble or self._never_found
        if trouble and said.exit_code is not ExitCode.NOT_CONFORMANT:
            result = "incomplete" if said.result == "incomplete" else "error"
            said = replace(said, result=result, exit_code=trouble.exit_code, why=trouble.sentence)
        if self.interrupted:
            said = replace(said, result="incomplete", exit_code=ExitCode.INTERRUPTED, why="the run was interrupted")
        return said

    @property
    def _never_found(self) -> EsippError | None:
        """The refusal if a required feature was never determined; None if all were."""
        unknown = [name for name in self.settings.require if name not in self._looked_for]
        return refusal(dict.fromkeys(unknown, NOT_LOOKED_FOR)) if unknown else None

    def end(self) -> Conclusion:
        """Write the closing record, close the ledger, and return the conclusion."""
        said = self.conclude()
        if self.ledger is None:
            return said
        try:
            self.ledger.seal(
                result=said.result,
                why=said.why,
                counts=dict(said.counts),
                exit_code=int(said.exit_code),
                seconds={name: round(spent, 3) for name, spent in self.seconds.items()},
            )
        except EsippError as error:  # the record is lost, so the run is not whole
            self.trouble = self.trouble or error
            said = self.conclude()
        self.ledger.close()
        self.ledger = None
        return said


def point(link: Path, target: str) -> None:
    """Make ``runs/latest`` point at the newest run, in one step; a file system without links goes without."""
    fresh = link.with_name(f".latest-{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        fresh.symlink_to(target)
        fresh.replace(link)
