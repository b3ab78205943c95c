"""What has the form of a secret, or is known to be one, is hidden; evidence is not."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.base.redaction import (
    KNOWN,
    Redactor,
    hide_forms,
    learn_authorization,
    learn_environment,
    learn_kubeconfig,
    redact,
)
from esipp.checks.catalog import all_checks
from esipp.ledger.recorded_checks import check_record

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"  # noqa: S105 - made up, like all that follow
BODY = "MIIEowIBAAKCAQEA0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL\nMIIEowIBAAKCAQEA9876543210"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"
KEY = "[redacted: rsa private key]"
VALUE = "[redacted: value]"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"token: {TOKEN}\n", f"token: {VALUE}\n"),
        (f"seen {TOKEN} in a log", "seen [redacted: token] in a log"),
        (f"Authorization: Bearer {TOKEN}\n", f"Authorization: Bearer {VALUE}\n"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", f"authorization: Basic {VALUE}"),
        ("sent Basic dXNlcjpwYXNzd29yZA== to it", "sent Basic [redacted: credentials] to it"),
        ("refused bearer 0a1b2c3d.", "refused bearer [redacted: token]"),
        ('{"client-key-data": "LS0tLS1CRUdJTg==", "a": 1}', f'{{"client-key-data": "{VALUE}", "a": 1}}'),
        (r'"{\"password\":\"hunter2\",\"a\":1}"', rf'"{{\"password\":\"{VALUE}\",\"a\":1}}"'),
        ('password: "correct horse, \\"battery\\""\nb: 1', f'password: "{VALUE}"\nb: 1'),
        ("{'password': 'it is', 'b': 1}", f"{{'password': '{VALUE}', 'b': 1}}"),
        ("token=b'0a1b2c'", f"token=b'{VALUE}'"),
        ("DB_PASSWORD=hunter2 A=1", f"DB_PASSWORD={VALUE} A=1"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", f"AWS_SECRET_ACCESS_KEY={VALUE}"),
        ("clientSecret: abc", f"clientSecret: {VALUE}"),
        ("certificate-authority-data: LS0tLS1C", f"certificate-authority-data: {VALUE}"),
        ("https://x/?sig=abc%2F&token=abc&x=1", f"https://x/?sig=[redacted: Azure key]&token={VALUE}&x=1"),
        (f"before {PEM} after", f"before {KEY} after"),
        (f"{PEM[60:]}. After", "[redacted: rest of a key or certificate]. After"),
        (f"before {PEM[:50]}", f"before {KEY}"),
        (json.dumps({"ca": PEM}), f'{{"ca": "{KEY}"}}'),
        (json.dumps({"ca": PEM[:70], "b": 1}), f'{{"ca": "{KEY}", "b": 1}}'),
        (base64.b64encode(PEM.encode()).decode(), "[redacted: token or key]"),
        (base64.b64encode(TOKEN.encode()).decode(), "[redacted: token or key]"),
        ("https://me:pa55@proxy.example:3128/x", "https://[redacted: credentials]@proxy.example:3128/x"),
        ("HTTPS_PROXY=me:p@55@proxy:3128", "HTTPS_PROXY=[redacted: credentials]@proxy:3128"),
        ("--token abcdef.0123 --v 2", f"--token {VALUE} --v 2"),
        ('["--client-secret",\n  "abc"]', f'["--client-secret",\n  "{VALUE}"]'),
        ('{"name": "DB_PASSWORD_1",\n "value": "x y"}', f'{{"name": "DB_PASSWORD_1",\n "value": "{VALUE}"}}'),
        ("- name: API_KEY\n  value: abc\n", f"- name: API_KEY\n  value: {VALUE}\n"),
        ("Set-Cookie: id=abc; Secure\r\nx", "Set-Cookie: [redacted: cookie]\r\nx"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted: AWS key]"),
        ("k8s-aws-v1.aHR0cHM6Ly9zdHMu", "[redacted: AWS key]"),
        ("ya29.a0AfH6SMBx-y", "[redacted: Google Cloud key]"),
        ("AIzaSyA-0123456789abcdefghijklmnopqrstu", "[redacted: Google Cloud key]"),
        ("abc8Q~0123456789abcdefghijklmnopqrstuvw", "[redacted: Azure key]"),
        ("AccountKey=Zm9vYmFy+/==;x", f"AccountKey={VALUE}"),
        ("ghp_0123456789abcdefghij0123456789abcdef", "[redacted: token]"),
    ],
)
def test_what_has_the_form_of_a_secret_is_hidden(text: str, left: str) -> None:
    assert hide_forms(text) == left
    assert hide_forms(left) == left, "what was hidden is not touched again"


@pytest.mark.parametrize(
    "text",
    [
        "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token\nsecretName: x\nautomountToken: false\n",
        "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y",
        "certificate-authority: /etc/kubernetes/pki/ca.crt\nPWD=/home/somebody\n",
        "nonce 1a859da53bc08035:405:0 of 172.18.0.5:44880 and [fc00:f853:ccd:e793::2]:80",
        "docker-pullable://quay.io/metallb/speaker@sha256:" + "0a" * 32,
        "docker-pullable://nginx@sha256:" + "0a" * 32,
        "uid 772fa9c1-1e8f-4ee4-890f-823b4efe79bb, kind://docker/esipp/esipp-worker, containerd://2.2.0+unknown",
        'spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"',
        "authorization:\n  mode: Webhook\nno bearer token was sent; basic authentication is off",
        '{"imagePullSecrets": [{"name": "regcred"}], "volumes": [{"secret": {"secretName": "x"}}]}',
        '{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}',
        '{"name": "default-token-abcde", "readOnly": true}',
        "--service-account-private-key-file=/etc/kubernetes/pki/sa.key --token-auth-file /etc/tokens",
        '{"name": "METALLB_ML_SECRET_NAME", "value": "memberlist"}',
        'service="podresources" qps=100 burstTokens=10',
        "token=$(cat /var/run/token) and password: ${{ x }}",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide_forms(text) == text


def test_no_check_says_anything_that_looks_like_a_secret() -> None:
    checks = json.dumps([check_record(check) for check in all_checks()])
    assert Redactor().line(checks) == checks


@pytest.mark.parametrize("before", ["", "nothing to see in this line\n" * 500])
@pytest.mark.parametrize("after", ["", "\nnothing to see in this line" * 500])
def test_long_texts_are_treated_like_short_ones(before: str, after: str) -> None:
    found = (
        f'x\n{PEM}\ny token: {TOKEN}\n"name": "A_SECRET",\n\n  "value": "a b"\nz\n"--token",\n "abc"\nbearer {TOKEN}'
    )
    left = (
        f'x\n{KEY}\ny token: {VALUE}\n"name": "A_SECRET",\n\n  "value": "{VALUE}"\nz\n"--token",\n "{VALUE}"\nbearer '
    )
    assert hide_forms(before + found + after) == before + left + "[redacted: token]" + after
    assert hide_forms(before + PEM[:200] + after).count("MII") == 0


# ----------------------------------------------------------------------------------------------- JSON documents
def hidden(value: Any) -> Any:
    return Redactor().value(value)


def test_a_json_document_stays_one() -> None:
    found = {"words": f'he said "token: {TOKEN}" \\ and ü', "x": [1.25, None, {f"bearer {TOKEN}": TOKEN}]}
    assert hidden(found) == {
        "words": f'he said "token: {VALUE}" \\ and ü',
        "x": [1.25, None, {"bearer [redacted: token]": "[redacted: token]"}],
    }


def test_the_structure_tells_what_is_a_secret() -> None:
    env = [{"value": "x y", "name": "MY_PASSWORD"}, {"name": "MY_TOKEN_FILE", "value": "/var/x"}]
    env += [{"name": "HOME", "value": "x y"}]
    secret = {"kind": "Secret", "data": {"a": "YQ=="}, "stringData": {"b": "c"}, "metadata": {"name": "s"}}
    assert hidden({"env": env, "object": secret, "accessToken": "abc", "Cookie": "a", "token": True}) == {
        "env": [{"value": VALUE, "name": "MY_PASSWORD"}, {"name": "MY_TOKEN_FILE", "value": "/var/x"}, env[2]],
        "object": {
            "kind": "Secret",
            "data": {"a": "[redacted: data of a Secret]"},
            "stringData": {"b": "[redacted: data of a Secret]"},
            "metadata": {"name": "s"},
        },
        "accessToken": VALUE,
        "Cookie": VALUE,
        "token": True,
    }


# ------------------------------------------------------------------------------------------------ what is known
def knowing(user: Mapping[str, Any]) -> Redactor:
    known = Redactor()
    learn_kubeconfig({"users": [{"name": "u", "user": user}, {"user": 7}, None], "clusters": None}, known)
    return known


@pytest.mark.parametrize(
    ("user", "secret"),
    [
        ({"token": "no-form-at-all-1"}, "no-form-at-all-1"),
        ({"username": "me", "password": "Tr0ub4dor"}, "Tr0ub4dor"),
        ({"auth-provider": {"config": {"refresh-token": "1//0abc_def", "idp-issuer-url": "https://x"}}}, "1//0abc_def"),
        ({"exec": {"env": [{"name": "SOME_SECRET", "value": "plainly"}, {"name": "P", "value": "default"}]}}, None),
        ({"exec": {"env": [{"name": "P", "value": "aB3" * 9}]}}, "aB3" * 9),
        ({"exec": {"args": ["--client-secret", "Zx9-qwert", "--region", "eu-west-1"]}}, "Zx9-qwert"),
        ({"exec": {"args": ["--client-secret=Zx9-qwert"]}}, "Zx9-qwert"),
        ({"exec": {"env": None, "args": None}}, None),
    ],
)
def test_the_credentials_of_a_kubeconfig_are_known(user: Mapping[str, Any], secret: str | None) -> None:
    known = knowing(user)
    assert known.text("default eu-west-1 https://x plainly") == "default eu-west-1 https://x plainly"
    if secret is not None:
        for spelling in (secret, json.dumps(secret), base64.b64encode(secret.encode()).decode()):
            assert spelling.strip('"') not in known.text(f"it said {spelling} there")
        assert secret not in known.line(json.dumps({secret: [secret]}))


def test_each_line_of_a_known_key_is_hidden_wherever_it_stands() -> None:
    known = knowing({"client-key-data": base64.b64encode(PEM.encode()).decode()})
    line = BODY.split()[0]
    assert known.text(f"pod-1 | {line}\npod-1 | {'0a' * 32}") == (
        f"pod-1 | [redacted: part of a key or certificate]\npod-1 | {'0a' * 32}"
    )


def test_files_that_a_kubeconfig_names_are_known(tmp_path: Any) -> None:
    (tmp_path / "token").write_text("from-a-file-1\n")
    (tmp_path / "key").write_text(PEM)
    known = knowing({"tokenFile": str(tmp_path / "token"), "client-key": str(tmp_path / "key")})
    assert known.text("a from-a-file-1 b") == "a [redacted: tokenFile] b"
    assert BODY.split()[0] not in known.text(BODY)


def test_what_is_known_has_its_own_edges() -> None:
    known = Redactor()
    known.learn("token", "abcd1234")
    assert known.text("xabcd1234 abcd12345 abcd1234.") == "xabcd1234 abcd12345 [redacted: token]."


@pytest.mark.parametrize("word", ["", "admin", "kubernetes", None, 7])
def test_a_plain_word_is_no_secret_wherever_it_stands(word: object) -> None:
    known = Redactor()
    known.learn("password", word)
    assert known.text("kubernetes admin 7 None") == "kubernetes admin 7 None"
    assert known.text("password: kubernetes") == f"password: {VALUE}"


def test_what_a_plugin_brought_is_known_once_it_is_sent() -> None:
    known = Redactor()
    learn_authorization("Bearer opaque-0a1b2c3d", known)
    learn_authorization("", known)
    assert known.text("got opaque-0a1b2c3d") == "got [redacted: token]"


def test_passwords_of_proxies_are_known() -> None:
    known = Redactor()
    learn_environment({"https_proxy": "http://me:pa55word@proxy:1", "NO_PROXY": "x", "MY_TOKEN": "tok-1234"}, known)
    learn_environment({"HTTP_PROXY": "http://[", "PWD": "/somewhere/else", "MY_SECRET_TOKEN": "/etc/token"}, known)
    assert known.text("me pa55word tok-1234 proxy /somewhere/else /etc/token") == (
        "me [redacted: password] [redacted: value] proxy /somewhere/else /etc/token"
    )


def test_what_we_raise_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    error = HarnessError(f"refused: Bearer {TOKEN}", f"--token {TOKEN}")
    for text in (str(error), repr(error), error.sentence, error.hint):
        assert TOKEN not in text
    assert redact("nothing to hide") == "nothing to hide"
    assert not KNOWN.cloud.wanted
