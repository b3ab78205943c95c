"""report.html: small enough, a script that runs and draws no more than packets say, colours that can be read."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from esipp.judging.observation import Witness
from esipp.report.html import HERE, SCRIPTS, render, script_of_the_page
from esipp.report.rendering.html import HERE as PAGE
from tests.tools import needs_tool
from tests.unit.html_world import Page, page, probes, verdicts
from tests.unit.recorded_world import recorded
from tests.unit.world import SOURCE_IP as CHECKS


# ------------------------------------------------------------------------------------------------------ size and script
def test_a_thousand_checks_stay_below_five_megabytes() -> None:
    checks = CHECKS[:1000]
    run = recorded(checks, {path_check.id: verdicts()[path_check.id] for path_check in checks})
    words = "\n".join(["at the node:      192.0.2.1:40000 -> 172.18.0.4:30080 on worker in eth0"] * 7)
    for number, path_check in enumerate(checks):
        run.probes[path_check.subject.path.key] = probes(path_check.subject.path.key, 3)
        run.witnesses[path_check.subject.path.key] = [
            Witness(path_check.subject.path.key, seq, True, f"{words} {number}") for seq in range(2)
        ]
    assert len(checks) == 1000
    assert len(render(run).encode()) < 5_000_000


@needs_tool("node")
def test_the_script_is_one_that_a_browser_can_read(tmp_path: Path) -> None:
    script = tmp_path / "page.js"
    script.write_text(script_of_the_page())
    checked = subprocess.run(["node", "--check", str(script)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def stops(words: str, change: str, dialled: str, **probe: str) -> list[str]:
    """The stops of a packet's way, as the page's script draws them."""
    seen = {"seq": 0, "times": 1, "outcome": "answered", "source": "10.0.0.9:4000", "pod": "", "node": "", "detail": ""}
    packet = {"seq": 0, "words": words, "change": change, "delivered": ""}
    path = {"probes": [seen | {"dialled": dialled} | probe], "packets": [packet]}
    book = {"192.0.2.2": "node two", "192.0.2.1": "node one", "10.0.0.5": "client backend"}
    data = {"addresses": book, "homes": {"a-pod": "one"}, "rows": [], "paths": [], "strings": [""]}
    stub = f"const document = {{ getElementById: () => ({{ textContent: {json.dumps(json.dumps(data))} }}) }};"
    parts = "\n".join((HERE / name).read_text() for name in ("page.js", "way.js"))
    ask = f"stopsOf({{ client: 'a-pod', path: 'x.a-pod-to-entry' }}, {json.dumps(path)}).stops.map((each) => each.name)"
    script = f"{stub}\n{parts}\nconsole.log(JSON.stringify({ask}));"
    ran = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    return list(json.loads(ran.stdout))


AT_ONE = "at the node:      10.0.0.9:4000 -> 192.0.2.2:30080 on one in veth1"
AT_POD = "at the pod:       10.0.0.9:4000 -> 10.0.0.5:8081 on one"
NO_BACKEND = (
    "no packet to a backend was captured; the last one",
    "it was seen to go to no backend; last seen",  # ledgers from before November 23, 2026
)


@needs_tool("node")
def test_the_way_claims_no_node_that_its_packets_do_not_name() -> None:
    client, own, pod = "client a-pod", "node one (the client\u2019s own)", "pod backend"
    words = f"{AT_ONE}\n{AT_POD} out veth2"
    found = stops(words, "", "192.0.2.2:30080", pod="backend", node="one")
    assert found == [client, "dialled: an address of node two", own, pod]
    for change in ("10.0.0.9 became 192.0.2.2", "NAT moved the source port of 10.0.0.9"):
        found = stops(words, f"two, between eth0 and eth0: {change}", "192.0.2.2:30080", pod="backend", node="one")
        assert found == [client, own, "dialled: node two", own, pod]
    for no_backend in NO_BACKEND:
        found = stops(f"{AT_ONE}\n{no_backend} on two in eth0", "", "192.0.2.2:30080", outcome="timeout")
        assert found == [client, own, "dialled: node two", "the client got no answer"]


@needs_tool("node")
def test_the_way_ends_at_no_pod_that_packets_did_not_reach() -> None:
    found = stops(f"{AT_ONE}\n{AT_POD} in eth0", "", "192.0.2.2:30080", outcome="timeout")
    assert found[-2:] == ["towards pod backend, arrival not captured", "the client got no answer"]


def test_the_script_asks_for_no_element_that_is_not_there() -> None:
    ids = {attrs["id"] for _, attrs in Page(page()).elements if "id" in attrs}
    made = set(re.findall(r"\bid: '([\w-]+)'", script_of_the_page()))
    assert set(re.findall(r"\$\('([\w-]+)'\)", script_of_the_page())) <= ids | made
    assert {each.name for each in HERE.glob("*.js")} == set(SCRIPTS)


# -------------------------------------------------------------------------------------------------------------- colours
def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def palettes() -> list[dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", (PAGE / "page.css").read_text(), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks[:2])
    return [light, light | dark]


@pytest.mark.parametrize("colours", palettes(), ids=["light", "dark"])
def test_text_can_be_read_on_its_ground(colours: dict[str, str]) -> None:
    grounds = ("paper", "raised", "faint")
    for name in ("ink", "muted", "accent", "ok", "warn", "bad"):
        for ground in grounds:
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    for name in [each.removesuffix("-bg") for each in colours if each.endswith("-bg")]:
        for text in (name, "ink"):
            assert contrast(colours[text], colours[f"{name}-bg"]) >= 4.5, (text, name)
    assert contrast(colours["muted"], colours["unsupported-bg"]) >= 4.5
