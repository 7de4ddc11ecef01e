"""`drive report` and `drive rollback` as they are typed, on finished nights and a real registry."""

import json
from pathlib import Path

import pytest

from data_engine.lock import nightly_lock
from data_engine.night import IDENTITY, REPORT, SUMMARY
from data_engine.registry import CHAMPION, Registry
from data_engine.retention import NOTE
from drive.cli.main import main
from drive.cli.policies import model_folder, policy_factory
from drive.files import read_json
from drive.model.folder import save_model
from tests.night_builders import finished_night
from tests.unit.model.networks import tiny_network


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Three finished nights, two of them on one date, and one that was never finished."""
    runs = tmp_path / "runs with space"
    for name in ("2026-11-29", "2026-11-30", "2026-11-30-2"):
        finished_night(runs, name, decision="refused", headline=f"Refused: night {name}.")
    (finished_night(runs, "2026-12-01") / SUMMARY).unlink()
    return runs


@pytest.mark.parametrize(
    ("date", "name"),
    [
        ([], "2026-11-30-2"),
        (["--date", "2026-11-29"], "2026-11-29"),
        (["--date", "2026-11-30"], "2026-11-30"),
    ],
)
def test_a_report_is_built_again_from_the_nights_folder(
    workspace: Path, capsys: pytest.CaptureFixture[str], date: list[str], name: str
) -> None:
    made, numbers = workspace / "nightly" / name / REPORT, workspace / "report.json"
    assert main(["report", "--workspace", str(workspace), "--json", str(numbers), *date]) == 0
    printed = capsys.readouterr().out
    assert f"night {name}: Refused: night {name}." in printed
    assert f"report: {made}" in printed
    written = json.loads(numbers.read_text(encoding="utf-8"))
    assert (written["night"], written["decision"], written["report"]) == (name, "refused", str(made))
    html = made.read_text(encoding="utf-8")
    assert f"Refused: night {name}." in html
    assert html.count("data:image/png;base64,") >= 2
    assert [p.parent.name for p in workspace.glob(f"nightly/*/{REPORT}")] == [name]


@pytest.mark.parametrize("date", ["2026-12-01", "2025-01-01", "nonsense"])
def test_a_night_that_is_not_finished_has_no_report(
    workspace: Path, capsys: pytest.CaptureFixture[str], date: str
) -> None:
    error = refused(["report", "--workspace", str(workspace), "--date", date], capsys)
    assert f"no finished night ({date})" in error
    assert not list(workspace.glob(f"nightly/*/{REPORT}"))


def test_a_workspace_without_nights_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("report", "rollback"):
        assert "run `drive nightly` first" in refused([command, "--workspace", str(tmp_path / "x")], capsys)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("file", [IDENTITY, "config.yaml", "mine/cases.json", "curate/windows.json"])
def test_a_night_that_lacks_a_file_is_named(
    workspace: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    (workspace / "nightly" / "2026-11-29" / file).unlink()
    assert main(["report", "--workspace", str(workspace), "--date", "2026-11-29"]) == 2
    error = capsys.readouterr().err
    assert Path(file).name in error
    assert error.count("\n") == 1


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with model1, model2 and `runs`, whose registry had model 2 promoted over model 1."""
    place = tmp_path_factory.mktemp("registry")
    registry = Registry(place / "runs")
    for number in (1, 2):
        save_model(place / f"model{number}", tiny_network(number))
        registry.promote(registry.register(place / f"model{number}", tags={}).version)
    return place


def model_id(place: Path, number: int) -> str:
    return str(read_json(place / f"model{number}" / "meta.json")["model_id"])


def champion(place: Path) -> int:
    found = Registry(place / "runs").get(CHAMPION)
    assert found is not None
    return found.version


@pytest.mark.parametrize(("name", "number"), [("@champion", 2), ("@previous", 1), ("/1", 1), ("/2", 2)])
def test_commands_find_registered_models_by_name(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    monkeypatch.chdir(place)
    wanted = model_id(place, number)
    assert read_json(model_folder(f"models:/nightdrive{name}") / "meta.json")["model_id"] == wanted
    assert policy_factory(f"models:/nightdrive{name}")().name == f"planner-{wanted}"


def test_rollback_is_refused_while_a_nightly_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with nightly_lock(place / "runs"):
        error = refused(["rollback", "--workspace", str(place / "runs")], capsys)
    assert "a nightly is running (pid " in error
    assert champion(place) == 2


def test_rollback_goes_back_once(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = ({"version": n, "id": model_id(place, n)} for n in (1, 2))
    command = ["rollback", "--workspace", str(place / "runs")]
    assert main([*command, "--json", str(tmp_path / "rollback.json")]) == 0
    said = f"champion: version 2 ({second['id']}) -> version 1 ({first['id']})"
    assert said in capsys.readouterr().out
    written = read_json(tmp_path / "rollback.json")
    assert (written["champion_before"], written["champion_after"]) == (second, first)
    assert "no previous champion" in refused(command, capsys)
    assert champion(place) == 1
    Registry(place / "runs").promote(2)  # as it was, for the other tests


def test_report_of_the_last_nights(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = workspace.parent / "last.json"
    assert main(["report", "--workspace", str(workspace), "--last", "2", "--json", str(out)]) == 0
    assert [row["night"] for row in read_json(out)["nights"]] == ["2026-11-30", "2026-11-30-2"]
    html = (workspace / REPORT).read_text(encoding="utf-8")
    assert html.count('class="night"') == 2
    assert "2026-11-29" not in html
    capsys.readouterr()
    for wrong in (["--last", "0"], ["--last", "2", "--date", "2026-11-30"]):
        assert "--last" in refused(["report", "--workspace", str(workspace), *wrong], capsys)


def test_a_dry_run_says_what_would_be_done_and_makes_nothing(
    repo_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = repo_root / "configs" / "nightly" / "quickstart.yaml"
    out = tmp_path / "plan.json"
    arguments = [
        "--workspace",
        str(tmp_path / "runs"),
        "--date",
        "2026-11-30",
        "--dry-run",
        "--json",
        str(out),
    ]
    assert main(["nightly", "--config", str(config), *arguments]) == 0
    plan = read_json(out)
    assert {row["state"] for row in plan["stages"]} == {"run"}
    assert plan["routes"] == {"drive": 20, "evaluate": 16}
    assert "20 routes" in capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plan.json"]


def test_a_base_model_cannot_be_rebuilt(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(workspace / "base", tiny_network())
    registry = Registry(workspace)
    registry.ensure_champion(workspace / "base")
    assert "no lineage" in refused(["rebuild", "1", "--workspace", str(workspace)], capsys)
    assert "has no version 9" in refused(["rebuild", "9", "--workspace", str(workspace)], capsys)


def test_a_pruned_night_keeps_its_report(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = workspace / "nightly" / "2026-11-29" / NOTE
    note.write_text("{}", encoding="utf-8")
    try:
        error = refused(["report", "--workspace", str(workspace), "--date", "2026-11-29"], capsys)
        assert "its drives were pruned" in error
    finally:
        note.unlink()
