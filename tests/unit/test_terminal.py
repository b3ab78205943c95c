"""What people read at the end."""

from dataclasses import replace

from esipp.judge import Evidence, judge
from esipp.model import AddressClass, Family, Feature, Observation, Outcome, Status, Verdict
from esipp.report.conclusion import conclude
from esipp.report.diagnosis import diagnose
from esipp.report.terminal import WIDTH, summary
from suites.source_ip.cells import CELLS
from tests.unit.world import FEATURES, by_id, changed, healthy, show, topology


def told(seen: dict[str, list[Observation]], features: dict[str, Feature] | None = None) -> list[str]:
    verdicts: dict[str, Verdict] = {}
    for cell in CELLS:
        samples = len(seen.get(cell.path.key, ()))
        verdicts[cell.id] = judge(cell, Evidence(seen, topology(), features or FEATURES, samples))
    return summary(CELLS, verdicts, conclude(verdicts.values(), 0), "esipp run --context x")


def test_a_healthy_run_fits_the_width_and_says_conformant() -> None:
    lines = told(healthy())
    assert max(len(line) for line in lines) <= WIDTH
    assert lines[-1].startswith("CONFORMANT: all 64 core rows")


def test_a_failure_says_all_a_reader_needs() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    lines = told(changed(healthy(), cell.path, show(cell.path, AddressClass.NODE)))
    text = "\n".join(lines)
    assert max(len(line) for line in lines if "repeat" not in line) <= WIDTH
    assert f"FAIL (core) {cell.id}" in text
    assert "172.18.0.101" in text, "expected, resolved to this cluster"
    assert "worker-b" in text, "observed, with the owner of the address"
    assert f"esipp run --context x {cell.id}" in text
    assert "that node masquerades" in text, "where to look first"
    assert any(line.startswith("NodePort Local, endpoint node") and "N!" in line for line in lines)


def test_one_cause_in_many_rows_is_explained_once_and_shown_of_each() -> None:
    seen = healthy()
    local = [c for c in CELLS if c.path.service and c.path.service.slug == "nodeport.local" and not c.is_negative]
    for cell in local:
        seen = changed(seen, cell.path, show(cell.path, AddressClass.OTHER))
    text = "\n".join(told(seen))
    assert text.count("FAIL (") == 1
    assert text.count("INCONCLUSIVE (") == 1, "the bare node rows, whose control is gone"
    assert all(text.count(f" {cell.id}\n") >= 1 for cell in local)
    assert text.count("an address of nobody in this run") == 1
    for client in ("outside-1", "outside-2", "pod-on-endpoint-node", "pod-on-other-node"):
        assert f"{client}, by its own address" in text


def test_one_family_has_a_readable_head() -> None:
    only = {**FEATURES, "family.ipv6": Feature(False, "single-stack")}
    cells = [cell for cell in CELLS if cell.path.family is Family.IPV4]
    verdicts = {cell.id: judge(cell, Evidence(healthy(), topology(), only, 3)) for cell in cells}
    head = summary(cells, verdicts, conclude(verdicts.values(), 0), "esipp run")[:3]
    assert any("pod-on-endpoint-node" in line or "other-node " in line for line in head), head
    assert not any("-pod" in line for line in head), head


def test_a_bare_node_that_answers_is_marked() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.outside-1-to-bare-node")
    lines = told(changed(healthy(), cell.path, show(cell.path, AddressClass.NODE)))
    assert any(line.startswith("NodePort Local, bare node") and "N!" in line for line in lines)


def test_the_same_doubt_is_told_once_with_its_count() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    listener = cell.controls[0].path
    text = "\n".join(told(changed(healthy(), listener, replace(show(listener, AddressClass.DROPPED), seq=0))))
    assert text.count("INCONCLUSIVE (core)") == 1
    assert "more rows, for the same reason;" in text


def test_what_was_not_tested_is_said_with_its_reason() -> None:
    text = "\n".join(
        told(healthy(), {**FEATURES, "family.ipv6": Feature(False, "node worker-a has no IPv6 InternalIP")})
    )
    assert "not tested, 51 rows" in text
    assert "no IPv6 InternalIP" in text


def test_every_wrong_class_of_every_row_has_a_place_to_look_first() -> None:
    silent = []
    for cell in CELLS:
        for shown in set(AddressClass) - cell.accept - {AddressClass.HAIRPIN, AddressClass.POD}:
            verdict = Verdict(cell.id, cell.level, Status.FAIL, "", "", shown=(shown,))
            if not diagnose(cell, verdict):
                silent.append((cell.id, shown))
    assert silent == []


def test_silence_and_refusal_differ_in_words() -> None:
    cell = by_id("loadbalancer.local.tcp.ipv4.outside-1-to-vip")
    seen = changed(healthy(), cell.path, Observation(cell.path.key, 0, Outcome.REFUSED))
    assert "refused x1" in "\n".join(told(seen))
