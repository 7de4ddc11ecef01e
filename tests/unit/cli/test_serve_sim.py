"""`drive serve-sim` refuses bad towns, ports and addresses before it starts anything."""

import socket

import pytest

from drive.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--town", "Town99"], "unknown town; choose one of Town01, Town02"),
        (["--port", "80"], "choose a port from 1024"),
        (["--port", "65535"], "--port 65535: choose a port from 1024 to 65534"),
        (["--port", "70000"], "choose a port from 1024"),
        (["--port", "0"], "choose a port from 1024"),
        (["--port", "-1"], "choose a port from 1024"),
        (["--port", "9" * 30], "choose a port from 1024"),
        (["--port", "x"], "invalid int value"),
        (["--host", "no.such.host.invalid"], "not an address of this machine"),
        (["--host", "256.1.1.1"], "not an address of this machine"),
        (["--host", "\u00fc..x"], "not an address of this machine"),
        (["--host", "x" * 300], "not an address of this machine"),
        (["--host", ""], "--host: is empty"),
        (["--host", " "], "--host: is empty"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve-sim", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve-sim", "--port", str(port)]) == 2
    assert f"127.0.0.1:{port} cannot be used" in capsys.readouterr().err


def test_an_interrupt_while_the_town_is_loaded_is_the_usual_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("sim.server.main.serve", interrupted)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert main(["serve-sim", "--port", str(port)]) == 0
    assert capsys.readouterr().err == ""
