"""The XML elements that the evaluator is given, and that it ends with the tool."""

import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
import yaml

from tools import bench2drive

EVALUATOR = """
import pathlib, os, time
pathlib.Path({pid!r}).write_text(str(os.getpid()))
time.sleep(60)
"""


ROUTES = """<routes><route id="7" town="Town01"><waypoints><position x="1" y="2" z="0"/>
<position x="30" y="2" z="0"/></waypoints></route></routes>"""


def lay_out(folder: Path) -> None:
    """An evaluator that does nothing, a folder for agents, and routes."""
    script = folder / "b2d" / bench2drive.EVALUATOR
    script.parent.mkdir(parents=True)
    script.write_text("")
    (folder / "agents").mkdir()
    (folder / "routes.xml").write_text(ROUTES)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ending_the_tool_ends_the_evaluator(tmp_path: Path, number: signal.Signals) -> None:
    script, pid = tmp_path / "b2d" / bench2drive.EVALUATOR, tmp_path / "pid"
    script.parent.mkdir(parents=True)
    script.write_text(EVALUATOR.format(pid=str(pid)))
    (tmp_path / "agents").mkdir()
    routes = tmp_path / "routes.xml"
    routes.write_text(ROUTES)
    options = {"evaluator": tmp_path / "b2d", "agents": tmp_path, "routes": routes, "out": tmp_path / "out"}
    command = [sys.executable, bench2drive.__file__, *(f"--{name}={at}" for name, at in options.items())]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=heed) as tool:
        while not pid.exists() or not pid.read_text():
            assert tool.poll() is None
            time.sleep(0.05)
        evaluator = psutil.Process(int(pid.read_text()))
        tool.send_signal(number)
        assert tool.wait(20) == 128 + number
    assert not evaluator.is_running() or evaluator.status() == psutil.STATUS_ZOMBIE


READER = """
import sys
from xml.etree import ElementTree
roots = [ElementTree.parse(sys.argv[1]).getroot(), ElementTree.fromstring(open(sys.argv[1]).read())]
for root in roots:
    (route,) = root.getchildren()
    names = [element.tag for element in route.getchildren()]
    assert names == ["waypoints", "weather"] and root.find("route/waypoints").getchildren() == [], names
    assert route.items() == [("id", "7"), ("town", "Town12")], route.items()
    assert [element.tag for element in root.iter("weather")] == ["weather"]
ElementTree.SubElement(roots[0], "records").set("n", "1")
made = ElementTree.Element("a", {"b": "c"}, d="e")
made.append(roots[0])
assert made.getchildren() == [roots[0]] and made.attrib == {"b": "c", "d": "e"}
print(ElementTree.tostring(made).decode())
"""


def test_elements_have_the_method_that_python_dropped_however_they_are_made(tmp_path: Path) -> None:
    reader, routes = tmp_path / "reader.py", tmp_path / "routes.xml"
    reader.write_text(READER)
    routes.write_text('<routes><route id="7" town="Town12"><waypoints/><weather/></route></routes>')
    command = [sys.executable, "-c", bench2drive.SHIM, str(reader), str(routes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith('<a b="c" d="e"><routes>')
    assert '<records n="1" />' in done.stdout


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--subset", "7,8"], "has no route 8"),
        (["--repetitions", "0"], "--repetitions must be at least 1"),
        (["--port", "80"], "--port 80: choose a port"),
        (["--traffic-port", "70000"], "--traffic-port 70000: choose a port"),
        (["--town", "Town99"], "unknown town"),
        (["--policy", "exprt"], "did you mean 'expert'"),
        (["--out", "FILE"], "is a file; give a folder"),
        (["--routes", "FILE"], "not valid XML"),
        (["--routes", "absent.xml"], "not found: absent.xml"),
        (["--routes", "ELSEWHERE"], "unknown town Town99"),
        (["--routes", "ELSEWHERE", "--subset", "7"], "unknown town Town99"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str], words: str
) -> None:
    lay_out(tmp_path)
    (tmp_path / "file").write_text("text")
    options = {"evaluator": tmp_path / "b2d", "agents": tmp_path, "routes": tmp_path / "routes.xml"}
    (tmp_path / "elsewhere.xml").write_text(ROUTES.replace("Town01", "Town99"))
    places = {"FILE": str(tmp_path / "file"), "ELSEWHERE": str(tmp_path / "elsewhere.xml")}
    given = [places.get(text, text) for text in option]
    fixed = [f"--{name}={at}" for name, at in options.items()]
    assert bench2drive.main([*fixed, "--out", str(tmp_path / "out"), *given]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["model", "a #b", "a: b", "[c", "'d", "m\u00fc"])
def test_a_model_folder_is_found_from_the_evaluator_s_folder(
    tmp_path: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lay_out(tmp_path)
    shutil.copytree(repo_root / "drive" / "model" / "base", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    arguments = ["--evaluator=b2d", "--agents=.", "--routes=routes.xml", "--out=out", f"--policy={name}"]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        assert bench2drive.main([*arguments, "--cameras", "front"]) == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    told = yaml.safe_load((tmp_path / "out" / "agent.yaml").read_text())
    assert told == {"policy": str(tmp_path / name), "cameras": ["front"]}
