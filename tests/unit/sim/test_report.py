"""The HTML report of a run: every kind of failure in its own place, with its words and its video."""

import re
from pathlib import Path

from drive.score.abilities import AbilityRow
from sim.report import write_report
from sim.results import AGENT_CRASHED, SIMULATION_CRASHED, ResultsFile, failure_record
from sim.routes import RouteSpec
from sim.suites import Suite

KINDS = {
    "fine": ("Perfect", "", "Without a fault"),
    "late": ("Failed - Agent timed out", "", "With a fault"),
    "raised": (AGENT_CRASHED, "ValueError: <script>alert(1)</script>", "The policy failed"),
    "lost": (SIMULATION_CRASHED, "ServerDied: no luck", "The simulator failed"),
}


ABILITIES = (AbilityRow("Merging", 4, 4, 3), AbilityRow("Give way", 0, 0, 0), AbilityRow("Signs", 2, 2, None))


def written(folder: Path, abilities: tuple[AbilityRow, ...] = ()) -> str:
    specs = tuple(RouteSpec(name, "Town01", n, 60.0) for n, name in enumerate((*KINDS, "never")))
    results = ResultsFile(
        folder / "results.json", Suite("s", "", specs), {"policy": "p", "simulator": "light simulator"}
    )
    for n, (name, (status, reason, _)) in enumerate(KINDS.items()):
        record = failure_record(specs[n], n, status, reason)
        if name == "late":
            record["infractions"]["route_timeout"].append("Route timeout at t=9.0 s")
            record["meta"]["video"] = "videos/late # ü.mp4"
        if name == "lost":
            record["meta"]["video"] = "videos/gone.mp4"
        results.add(record)
    (folder / "videos").mkdir()
    (folder / "videos" / "late # ü.mp4").write_bytes(b"mp4")
    return write_report(folder / "results.json", abilities).read_text(encoding="utf-8")


def test_each_route_stands_under_its_kind(tmp_path: Path) -> None:
    html = written(tmp_path)
    parts = dict(re.findall(r"<h2>(.+?) \(\d+\)</h2>(.*?)</table>", html, re.S))
    for name, (_, _, title) in KINDS.items():
        assert [t for t, text in parts.items() if f"<td>{name}</td>" in text] == [title]
    assert "route timeout: Route timeout at t=9.0 s" in parts["With a fault"]
    assert "ServerDied: no luck" in parts["The simulator failed"]
    assert "5 planned routes: 1 without fault, 1 with" in html
    assert "1 not driven" in html
    assert "light simulator" in html


def test_what_policies_say_is_text_and_links_lead_to_files_that_are_there(tmp_path: Path) -> None:
    html = written(tmp_path)
    assert "<script>" not in html
    assert re.findall(r'href="(.+?)"', html) == ["videos/late%20%23%20%C3%BC.mp4"]
    assert "http" not in html


def test_abilities_that_routes_ask_for_have_a_table(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    html = written(tmp_path / "with", ABILITIES)
    table = re.search(r"<h2>Abilities</h2>(.*?)</table>", html, re.S)
    assert table is not None
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in table[1].split("<tr>")[2:]]
    assert rows == [["Merging", "4", "4", "3", "75.0"], ["Signs", "2", "2", "-", "-"]]
    assert "Abilities" not in written(tmp_path / "without")
