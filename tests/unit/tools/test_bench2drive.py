"""However the tool is ended, no evaluator is left behind: it would knock at the next one's server."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tools import bench2drive

EVALUATOR = """
import pathlib, os, time
pathlib.Path({pid!r}).write_text(str(os.getpid()))
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ending_the_tool_ends_the_evaluator(tmp_path: Path, number: signal.Signals) -> None:
    script, pid = tmp_path / "b2d" / bench2drive.EVALUATOR, tmp_path / "pid"
    script.parent.mkdir(parents=True)
    script.write_text(EVALUATOR.format(pid=str(pid)))
    (tmp_path / "agents").mkdir()
    routes = tmp_path / "routes.xml"
    routes.write_text("<routes/>")
    options = {"evaluator": tmp_path / "b2d", "agents": tmp_path, "routes": routes, "out": tmp_path / "out"}
    command = [sys.executable, bench2drive.__file__, *(f"--{name}={at}" for name, at in options.items())]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tool:
        while not pid.exists() or not pid.read_text():
            assert tool.poll() is None
            time.sleep(0.05)
        evaluator = psutil.Process(int(pid.read_text()))
        tool.send_signal(number)
        tool.wait(20)
    assert not evaluator.is_running() or evaluator.status() == psutil.STATUS_ZOMBIE
