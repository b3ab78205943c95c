"""Redaction of secrets: everything that is written, printed or raised passes through this module.

It hides two kinds. By patterns, it hides what looks like a secret: tokens, passwords after a telling name, keys and
certificates, credentials in URLs. By value, it hides known secrets everywhere: the credentials of the kubeconfig in use
and of the proxies in the environment (``learn_kubeconfig``, ``learn_environment``). Evidence stays: addresses, nonces,
digests, uids.

A process has one set of known secrets, because code that creates messages does not know the run. Cloud ids are not
secrets; they are replaced only on request (cloud_ids.py).
"""

import base64
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from esipp.base.cloud_ids import CloudIds

SENSITIVE = (
    r"(?:(?<!burst)(?<!max)token|passw(?:or)?d|passphrase|pwd|(?<!--image-pull-)secret|credentials?|signature|authorization|connection[-_]?string"
    r"|(?:api|access|account|auth|private)[-_]?key(?:[-_]?id)?|key-data|certificate(?:-authority)?-data|cabundle)"
)
"""Endings of names of secrets. ``--image-pull-secret`` is esipp's own option; its value is a name."""

_QUOTE = r"\\*[\"']"
_NOT_A_NAME = r"(?![\w.-]{0,80}(?:name|namespace|file|path|dir|ttl|enabled)\b)"
"""Endings of variables that contain the location of a secret, not the secret."""

_PLAIN = r"(?:true|false|null|none|nil|yes|no)(?![\w/+=.-])|/[a-z]+(?:/|\b)|\$[({]|\[redacted|redacted|data\+omitted"
"""Values after such a name that are not secrets: switches, paths, references, redacted values."""


def _value(name: str) -> str:
    """A pattern for the value after a name: a quoted text, with any escaping of its quotes, or one word."""
    quoted = rf"(?P<{name}b>\\*)(?P<{name}q>[\"'`])(?!{_PLAIN})(?P<{name}>.{{1,9999}}?)(?<!\\)(?P={name}b)(?P={name}q)"
    token = rf"(?:{_QUOTE})?(?!{_PLAIN})(?P<{name}w>[^\s\"'\\,}}&\[{{(<][^\s\"'\\,}}&]*)"
    return rf"(?:[bru](?=[\\\"']))?+(?:{quoted}|{token})"


_ASSIGNED = r"[ \t]*(?:=>|[:=])[ \t]*"
_SCHEME = r"(?:(?:bearer|basic|negotiate|digest|token)[ \t]+)?+"
_NEXT = r"(?:\\n|[\s,])*"

_FORMS = {
    "pem": r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----"
    r"(?:.{0,20000}?-----END [A-Z0-9 ]+-----|[A-Za-z0-9+/=\s\\]*)",
    "web": r"\beyJ[\w-]{16,}(?:\.[\w-]*){0,2}",
    "encoded": r"\b(?:ZXlK|LS0tLS1CRUdJTi)[\w+/-]{16,}={0,2}",  # base64 of a web token, of a PEM block
    "cookie": rf"(?i:cookie\\*[\"']?{_ASSIGNED}(?:{_QUOTE})?)(?P<cookiev>[\w!#$%&*+.^|~-]+=[^\"'\r\n\\]+)",
    "url": r"://(?P<urlv>[^\s/\"'\\<>?\#]+)(?=@(?!sha\d+:))",
    "proxy": rf"(?i:_proxy\\*[\"']?{_NEXT}(?:(?:{_QUOTE})?value\\*[\"']?)?{_ASSIGNED}(?:{_QUOTE})?)"
    r"(?P<proxyv>[^\s\"'\\/@]*:[^\s\"'\\/]+)(?=@)",
    "variable": rf"(?i:\bname\\*[\"']?{_ASSIGNED}(?:{_QUOTE})?[\w.-]{{0,80}}?{SENSITIVE}{_NOT_A_NAME}"
    rf"[\w.-]{{0,80}}(?:{_QUOTE})?{_NEXT}(?:{_QUOTE})?value\\*[\"']?{_ASSIGNED}{_value('variablev')})",
    "option": rf"(?i:--[\w-]{{0,60}}?{SENSITIVE}(?![\w-])\\*[\"']?(?:,\s*|\s+(?:-[ ])?)(?![ -])"
    rf"{_value('optionv')})",
    "named": rf"(?i:{SENSITIVE}s?[-_]?\d*\\*[\"']?{_ASSIGNED}{_SCHEME}{_value('namedv')})",
    "bearer": r"(?i:\bbearer[ \t]+(?!tokens?\b|auth|realm\b|\[redacted))(?P<bearerv>[^\s\"'\\,]+)",
    "basic": r"(?i:\bbasic[ \t]+(?!auth))(?=[a-z+/]*[A-Z0-9=])(?P<basicv>[A-Za-z0-9+/_-]{6,}={0,2})",
    "aws": r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b|\bk8s-aws-v1\.[\w-]+|\b(?:IQoJb3JpZ2lu|FwoGZXIvYXdz)[\w+/=-]{20,}",
    "gcp": r"\bya29\.[\w.-]{8,}|\bAIza[\w-]{30,}|\bGOOG1[A-Z0-9]{16,}",
    "azure": r"[\w~.-]{3,5}8Q~[\w~.-]{20,}|(?i:[?&]sig=)(?P<azurev>[^&\s\"'\\\[]+)",
    "github": r"\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}",
}
_LABELS = {
    "web": "token",
    "encoded": "token or key",
    "url": "credentials",
    "proxy": "credentials",
    "variable": "value",
    "option": "value",
    "named": "value",
    "bearer": "token",
    "basic": "credentials",
    "aws": "AWS key",
    "gcp": "Google Cloud key",
    "azure": "Azure key",
    "github": "token",
}
_FORM = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _FORMS.items()), re.DOTALL)
_PEM = re.compile(rf"(?P<pem>{_FORMS['pem']})", re.DOTALL)
_REST_OF_PEM = re.compile(r"\A(?:(?!-----BEGIN )[^\0]){0,20000}?-----END [A-Z0-9 ]+-----")
_NAME = re.compile(rf"(?:{SENSITIVE}|cookie)s?[-_]?\d*\Z", re.IGNORECASE)
_SOMEWHERE = re.compile(SENSITIVE + _NOT_A_NAME, re.IGNORECASE)
_NO_SECRET = re.compile(rf"(?:{_PLAIN})", re.IGNORECASE)

_HINTS = (
    *("token", "passw", "passphrase", "pwd", "secret", "credential", "signature", "authorization", "cookie"),
    *(
        "connectionstring",
        "connection-string",
        "connection_string",
        "_key",
        "-key",
        "apikey",
        "accesskey",
        "accountkey",
    ),
    *("authkey", "privatekey", "key-data", "keydata", "certificate-data", "authority-data", "cabundle", "-----", "eyj"),
    *("zxlk", "ls0tls1", "bearer ", "basic ", "bearer\t", "basic\t"),
    *("@", "akia", "asia", "aroa", "aida", "k8s-aws", "iqojb3", "fwogzx", "ya29.", "aiza", "goog1", "8q~", "sig="),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat-"),
)
"""Every text that matches one of the patterns contains one of these, in lower case. Searching for them is cheap."""

LONG = 4096
"""Texts of at least this many characters are filtered line by line first."""

_LONG_RUN = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{60}")
_PEM_LINE = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def _marked(label: str) -> str:
    return f"[redacted: {label}]"


def _hide(found: re.Match[str]) -> str:
    """The replacement of a match: a mark in place of the value; the name stays."""
    form = str(found.lastgroup)
    if form == "pem":
        return _marked(found["kind"].lower())
    name = f"{form}v"
    groups = found.groupdict()
    name = name if groups.get(name) is not None else f"{name}w"
    mark = _marked(_LABELS.get(form, form))
    if groups.get(name) is None:
        return mark
    begin, start, end = found.start(), found.start(name), found.end(name)
    return f"{found[0][: start - begin]}{mark}{found[0][end - begin :]}"


def hide_forms(text: str) -> str:
    """The text without anything that looks like a secret."""
    small = text.lower()
    if not any(map(small.__contains__, _HINTS)):
        return text
    if "-----END " in text:
        text = _REST_OF_PEM.sub(_marked("rest of a key or certificate"), text)
    if len(text) < LONG:
        return _FORM.sub(_hide, text)
    if "-----BEGIN " in text:
        text = _PEM.sub(_hide, text)
    return "".join(_FORM.sub(_hide, part) if wanted else part for wanted, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Split a long text into parts that may contain a secret and parts that cannot.

    A line with a hint also selects the two lines after it, because a name's value may follow there.
    """
    lines = text.splitlines(keepends=True)
    hinted = [any(map(line.lower().__contains__, _HINTS)) for line in lines]
    wanted = [any(hinted[max(0, i - 2) : i + 1]) for i in range(len(lines))]
    for suspect, group in groupby(zip(wanted, lines, strict=True), key=itemgetter(0)):
        yield suspect, "".join(line for _, line in group)


def _hide_in(value: Any) -> Any:
    """A JSON value without secrets; its structure also shows variables' values and the data of Secrets."""
    if isinstance(value, str):
        return hide_forms(value)
    if isinstance(value, list):
        return [_hide_in(each) for each in value]
    if not isinstance(value, dict):
        return value
    name = value.get("name")
    variable = isinstance(name, str) and _SOMEWHERE.search(name) is not None
    data = ("data", "stringData") if value.get("kind") == "Secret" else ()
    clean: dict[str, Any] = {}
    for key, each in value.items():
        if key in data and isinstance(each, dict):
            clean[key] = dict.fromkeys(each, _marked("data of a Secret"))
        elif isinstance(each, str) and ((key == "value" and variable) or _NAME.search(key)):
            clean[key] = each if not each or _NO_SECRET.match(each) else _marked("value")
        else:
            clean[hide_forms(key)] = _hide_in(each)
    return clean


def _spellings(value: str) -> Iterator[str]:
    """The encodings of a text in files: plain, in JSON, in nested JSON, in a URL, in the data of a Secret."""
    once = json.dumps(value)[1:-1]
    yield from (value, once, json.dumps(once)[1:-1], quote(value, safe=""), quote(value))
    yield base64.b64encode(value.encode()).decode()


class Redactor:
    """The known secrets, and the functions that remove them.

    A short lower-case word is not replaced everywhere, even if it is a password, because it may be part of any
    sentence. After a name such as ``password`` it is hidden like any other value.
    """

    def __init__(self) -> None:
        self.cloud = CloudIds()
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        self._lines: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, label: str, value: object) -> None:
        """Register a secret, which is hidden everywhere from now on; ``label`` names its kind."""
        text = str(value or "").strip()
        weak = len(text) < 6 or (len(text) < 12 and text.isalpha() and text.islower())
        if weak or text in self._known:
            return
        with self._lock:
            for spelling in _spellings(text):
                self._known.setdefault(spelling, label)
            with suppress(
                ValueError, UnicodeDecodeError
            ):  # a base64 value of a kubeconfig may appear decoded elsewhere
                plain = base64.b64decode(text, validate=True).decode()
                self._learn_lines(plain)
            self._learn_lines(text)
            longest = sorted(self._known, key=len, reverse=True)
            self._pattern = re.compile("|".join(_bounded(each) for each in longest))

    def _learn_lines(self, text: str) -> None:
        """Register the lines of a PEM block, each of which may appear alone in a log."""
        if "-----BEGIN " in text:
            self._lines |= {line for line in text.split() if _PEM_LINE.fullmatch(line)}

    def text(self, text: str) -> str:
        """A text without secrets."""
        return self.cloud.replace(hide_forms(self._hide_known(text)))

    def line(self, line: str) -> str:
        """A JSON document without secrets; it remains valid JSON."""
        line = self._hide_known(line)
        small = line.lower()
        if any(map(small.__contains__, _HINTS)):
            value = json.loads(line)
            clean = _hide_in(value)
            line = line if clean == value else json.dumps(clean)
        return self.cloud.replace(line)

    def value(self, value: Any) -> Any:
        """A JSON value without secrets."""
        return json.loads(self.line(json.dumps(value)))

    def _hide_known(self, text: str) -> str:
        if self._pattern is not None and any(map(text.__contains__, self._known)):
            text = self._pattern.sub(lambda found: _marked(self._known[found[0]]), text)
        if self._lines and _LONG_RUN.search(text):
            for line in self._lines:
                text = text.replace(line, _marked("part of a key or certificate"))
        return text


def _bounded(literal: str) -> str:
    """A pattern for a literal; a short one matches only as a whole word, because it might be part of another."""
    return re.escape(literal) if len(literal) >= 16 else rf"(?<![\w-]){re.escape(literal)}(?![\w-])"


KNOWN = Redactor()
"""The redactor of this process."""


def redact(text: str) -> str:
    """The text without secrets, and without cloud ids if the user requested that."""
    return KNOWN.text(text)


# --------------------------------------------------------------------------------------------- what is known
def learn_kubeconfig(config: Mapping[str, Any], known: Redactor = KNOWN) -> None:
    """Register the credentials of all users of a kubeconfig, and the CA certificates of its clusters."""
    for entry in config.get("users") or ():
        with suppress(AttributeError, TypeError):  # an invalid entry, which may not be the one in use
            _learn_user(entry.get("user") or {}, known)
    for entry in config.get("clusters") or ():
        with suppress(AttributeError, TypeError):
            known.learn("certificate-authority-data", (entry.get("cluster") or {}).get("certificate-authority-data"))


def _learn_user(user: Mapping[str, Any], known: Redactor) -> None:
    for name in ("token", "password", "client-key-data", "client-certificate-data"):
        known.learn(name, user.get(name))
    for name in ("tokenFile", "client-key"):
        with suppress(OSError, ValueError, TypeError):
            known.learn(name, Path(user.get(name) or "").read_text(encoding="utf-8"))
    provider = (user.get("auth-provider") or {}).get("config") or {}
    for name, value in provider.items():
        if _SOMEWHERE.search(str(name)):
            known.learn(str(name), value)
    plugin = user.get("exec") or {}
    for each in plugin.get("env") or ():
        name, value = str(each.get("name")), str(each.get("value"))
        if _SOMEWHERE.search(name) or _looks_random(value):
            known.learn(name, value)
    for name, value in pairwise(str(each) for each in plugin.get("args") or ()):
        if name.startswith("--") and _NAME.search(name):
            known.learn(name.lstrip("-"), value)
    for each in plugin.get("args") or ():
        name, _, value = str(each).partition("=")
        if name.startswith("--") and _NAME.search(name):
            known.learn(name.lstrip("-"), value)


def _looks_random(value: str) -> bool:
    """Whether a value looks more like a key than like the name of a profile or a region."""
    one_word = re.fullmatch(r"[\w+/=~-]{20,}", value) is not None
    return one_word and bool(re.search(r"\d", value)) and bool(re.search(r"[A-Z]", value))


def learn_authorization(header: str, known: Redactor = KNOWN) -> None:
    """Register the token in an Authorization header, which a plugin may have just created."""
    known.learn("token", header.partition(" ")[2])


def learn_environment(environment: Mapping[str, str], known: Redactor = KNOWN) -> None:
    """Register the passwords of proxies, and the values of variables that are named like secrets."""
    for name, value in environment.items():
        if name.lower().endswith("_proxy"):
            with suppress(ValueError):
                known.learn("password", urlsplit(value if "://" in value else f"http://{value}").password)
        elif _NAME.search(name) and not _NO_SECRET.match(value):
            known.learn("value", value)


def learn_cloud(context: str, nodes: Iterable[Mapping[str, Any]]) -> None:
    """Register the names that identify a cloud account; they are replaced only on request."""
    KNOWN.cloud.learn(context, nodes)
