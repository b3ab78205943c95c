"""A short, seeded part of what ``python -m tests.echoserver.fuzz`` does for ten minutes; and that it finds a fault."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from images.echoserver import prober
from tests.echoserver import fuzz, harness

INPUTS = 2000
NO_END = 3600.0


def test_the_server_stays_sound() -> None:
    report = fuzz.fuzz(NO_END, INPUTS, 1)
    assert report.faults == []
    assert report.inputs.total() >= INPUTS
    assert set(report.inputs) == {"tcp", "http", "control", "udp"}
    seen = set(report.answers)
    wanted = {"tcp document", "tcp none", "udp document", "udp none", "http 200", "http 400", "http 431", "control 200"}
    assert wanted <= seen, "the inputs reach the server's branches"


def test_the_same_seed_gives_the_same_inputs() -> None:
    def some(seed: int) -> list[bytes]:
        chance = random.Random(seed)
        made = [fuzz.stream(chance, name) for name in ("tcp", "http") * 50]
        return [*made, *(fuzz.datagram(chance) for _ in range(50)), *(fuzz.init(chance, 7000) for _ in range(50))]

    assert some(1) == some(1) != some(2)


def test_inputs_are_valid_broken_and_huge() -> None:
    chance = random.Random(1)
    made = [fuzz.stream(chance, "http") for _ in range(2000)]
    assert any(each in fuzz.REQUESTS for each in made)
    assert any(each.startswith(fuzz.SIGNATURE) for each in made)
    assert any(len(each) > 8192 for each in made)
    assert all(len(each) <= 100_000 for each in made)
    right = [prober.sealed(each[:8], each[12:]) == each for each in (fuzz.init(chance, 7000) for _ in range(200))]
    assert any(right)
    assert not all(right)


BROKEN = {
    "a crash": ("def valid_nonce(nonce: bytes) -> bool:", 'if nonce.startswith(b"A"): raise SystemExit(3)'),
    "an exception": ("def valid_nonce(nonce: bytes) -> bool:", "nonce.decode()"),
    "a wrong answer": ("def valid_nonce(nonce: bytes) -> bool:", 'if nonce.startswith(b"-1"): return True'),
    "a descriptor": ("def __init__(self, head: bytes) -> None:", "import os; os.dup(2)"),
    "memory": ("def __init__(self, head: bytes) -> None:", "KEPT.append(bytes(20_000) + head)"),
    "a thread": (
        "def __init__(self, head: bytes) -> None:",
        "import threading, time; threading.Thread(target=time.sleep, args=[999], daemon=True).start()",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_it_finds(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in harness.IMAGE.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    where, what = BROKEN[kind]
    text = (tmp_path / "http1.py").read_text()
    indent = " " * (8 if "self" in where else 4)
    after = text.index("\n", text.index(where)) + 1
    if text[after:].lstrip().startswith('"""'):
        after = text.index("\n", after) + 1
    broken = f"{text[:after]}{indent}{what}\n{text[after:]}"
    (tmp_path / "http1.py").write_text(broken.replace("MAX_NONCE = 128\n", "MAX_NONCE = 128\nKEPT = []\n"))
    monkeypatch.setattr(harness, "IMAGE", tmp_path)
    monkeypatch.setattr(fuzz, "PATIENCE", 2.0)  # for descriptors that never go
    report = fuzz.fuzz(NO_END, INPUTS, 1)
    assert report.faults
