"""`drive sim` refuses bad input in one line before anything is started or made."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from drive.cli.main import main
from sim.results import AGENT_CRASHED, ResultsFile, failure_record
from sim.route_files import FileRoute
from sim.runner import _routes_sha
from sim.suites import load_suite, take
from tests.route_xml import route_xml

QUICK = ["sim", "--suite", "quickstart", "--limit", "1"]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*QUICK, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_out_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    assert "is a file" in refused(["--policy", "constant_velocity", "--out", str(file)], capsys)
    assert file.read_text() == "kept"


def test_ego_mlp_has_no_closed_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "drive bench" in refused(["--policy", "ego_mlp", "--out", str(tmp_path / "out")], capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("meta", ["[1]", '{"format": 1, "sha256": "0"}'])
def test_a_model_without_identity(
    tmp_path: Path, repo_root: Path, capsys: pytest.CaptureFixture[str], meta: str
) -> None:
    model = tmp_path / "model"
    shutil.copytree(repo_root / "drive" / "model" / "base", model)
    (model / "meta.json").write_text(meta)
    assert "meta.json" in refused(["--policy", str(model), "--out", str(tmp_path / "out")], capsys)
    assert not (tmp_path / "out").exists()


def finished(out: Path, broken: Mapping[int, tuple[str, str]]) -> list[str]:
    """A finished run of two routes of quickstart, of which some are broken; returns the route ids."""
    suite = take(load_suite("quickstart"), 2)
    run = {
        "policy": "constant_velocity", "simulator": "light simulator", "suite": suite.name,
        "routes": _routes_sha(suite), "record": True, "perturb": 0.0, "dagger": False,
    }  # fmt: skip
    results = ResultsFile(out / "results.json", suite, run)
    for n, spec in enumerate(suite.routes):
        status, reason = broken.get(n, ("Completed", ""))
        results.add(failure_record(spec, n, status, reason))
    return [route.route_id for route in suite.routes]


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        ({}, 0),
        ({1: (AGENT_CRASHED, "ValueError: boom\non two lines" + "x" * 500)}, 1),
        ({0: (AGENT_CRASHED, "a"), 1: (AGENT_CRASHED, "b")}, 1),
    ],
)
def test_routes_without_a_result_are_printed_with_the_reason_and_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: dict[int, tuple[str, str]], code: int
) -> None:
    out, report = tmp_path / "out # %20 ü", tmp_path / "sim.json"
    routes = finished(out, broken)
    arguments = ["sim", "--suite", "quickstart", "--limit", "2", "--policy", "constant_velocity"]
    assert main([*arguments, "--out", str(out), "--json", str(report)]) == code
    lines = capsys.readouterr().out.splitlines()
    said = [line.strip() for line in lines if line.startswith("  failed - agent crashed: ")]
    assert len(said) == len(broken)
    for line, (n, (_, reason)) in zip(said, broken.items(), strict=True):
        assert line.startswith(f"failed - agent crashed: {routes[n]}: {reason.split()[0]}")
        assert len(line) < 250
    numbers = json.loads(report.read_text())
    assert [f["route_id"] for f in numbers["failures"]] == [routes[n] for n in broken]
    assert numbers["conditions"][-1]["policy_failed"] == len(broken)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--limit", "0"], "--limit must be at least 1"),
        (["--limit", "-3"], "--limit must be at least 1"),
        (["--limit", "x"], "invalid int value"),
        (["--workers", "0"], "--workers must be from 1 to 1000"),
        (["--workers", "100000"], "--workers must be from 1 to 1000"),
        (["--repetitions", "0"], "--repetitions must be at least 1"),
        (["--repetitions", "1000000000"], "a run takes at most 20000"),
        (["--cluster", ""], "expected auto, local, HOST:PORT or ray://HOST:PORT"),
        (["--cluster", "somewhere"], "expected auto, local, HOST:PORT or ray://HOST:PORT"),
        (["--cluster", "localhost:70000"], "expected auto, local, HOST:PORT or ray://HOST:PORT"),
        (["--cluster", "ray://no.such.host.invalid:1"], "--cluster ray://no.such.host.invalid:1: no answer"),
        (["--carla", ","], "expected HOST:PORT"),
        (["--carla", "localhost:2000,localhost:2000"], "is named twice"),
        (["--perturb", "nan"], "--perturb must be between 0 and 0.5"),
        (["--perturb", "-1"], "--perturb must be between 0 and 0.5"),
        (["--suite", "quikstart"], "unknown suite 'quikstart'; known: "),
        (["--suite", "."], "unknown suite"),
        (["--carla", "somewhere"], "expected HOST:PORT"),
        (["--carla", "localhost:70000"], "expected HOST:PORT"),
        (["--carla", "localhost:\u00b2"], "expected HOST:PORT"),
        (["--carla", f"localhost:{'9' * 5000}"], "expected HOST:PORT"),
        (["--cluster", "localhost:\u00b2"], "expected auto, local, HOST:PORT"),
        (["--policy", "constant_velocit"], "did you mean 'constant_velocity'"),
        (["--policy", "."], "not a model folder"),
    ],
)
def test_bad_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in refused([*arguments, "--out", str(tmp_path / "out")], capsys)
    assert not (tmp_path / "out").exists()


def route_file(tmp_path: Path, *routes: FileRoute) -> str:
    path = tmp_path / "routes.xml"
    path.write_text(route_xml(routes))
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "quickstart", "--routes", "FILE"], "--suite and --routes exclude each other"),
        (["--routes", "20"], "for that many routes use --limit"),
        (["--routes", "-3"], "for that many routes use --limit"),
        (["--routes", "FILE", "--limit", "0"], "--limit must be at least 1"),
        (["--routes", "FILE", "--limit-per-scenario", "0"], "--limit-per-scenario must be at least 1"),
        (["--limit-per-scenario", "1"], "give --routes FILE"),
        (["--background", "5"], "give --routes FILE"),
        (["--routes", "FILE", "--background", "-1"], "--background must be between 0 and 200"),
        (["--suite", "quickstart", "--limit", "-1"], "--limit must be at least 1"),
        (["--routes", "absent.xml"], "absent.xml: cannot be read"),
        (["--routes", "FILE"], "2 of 2 routes cannot be driven: unknown town (2 routes): route 1: 'Town99'"),
    ],
)
def test_routes_that_cannot_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    points = tuple((10.0 * k, 0.0, 0.0) for k in range(4))
    file = route_file(tmp_path, FileRoute("1", "Town99", points), FileRoute("2", "Town98", points))
    given = [file if argument == "FILE" else argument for argument in arguments]
    assert main(["sim", *given, "--policy", "constant_velocity", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
