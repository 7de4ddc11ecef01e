"""What listens at an address is asked before CARLA's client, which aborts the process on foreign answers."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from drive.cli.main import main
from drive.contracts import UserError
from sim.handshake import ANSWER, check_protocol, first_bytes
from tests.light_server import running_server

FOREIGN = {
    "web server": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "secure shell": b"SSH-2.0-OpenSSH_9.2\r\n",
    "TLS alert": b"\x15\x03\x01\x00\x02\x02\x0a",
    "database": b"-ERR unknown command\r\n",
    "one byte": b"\x00",
    "another array": b"\x93\x01\xc0\xc0",
    "a request": b"\x94\x00\x01\xa7version\x90",
}


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port that sends `answer` to everybody and closes the connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                with link:
                    link.recv(64)
                    link.sendall(answer)

        Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_answers_are_refused(answer: bytes) -> None:
    with answering(answer) as port, pytest.raises(UserError, match=f"127.0.0.1:{port}: .*no CARLA server"):
        check_protocol("127.0.0.1", port, 5.0)


@pytest.mark.parametrize("answer", [ANSWER + b"\x01\xc0\xa60.9.16", b""], ids=["CARLA", "closed"])
def test_answers_and_silence_are_left_to_the_client(answer: bytes) -> None:
    with answering(answer) as port:
        check_protocol("127.0.0.1", port, 5.0)


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid", "\u00fc..x", "x" * 300])
def test_nobody_there_is_left_to_the_client(host: str) -> None:
    check_protocol(host, 1, 5.0)


def test_silence_ends() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        check_protocol("127.0.0.1", silent.getsockname()[1], 0.1)


def test_the_light_server_answers_as_expected() -> None:
    with running_server("Town01") as (_, port, _):
        assert first_bytes("127.0.0.1", port, 30.0) == ANSWER


def test_drive_sim_refuses_a_web_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    with answering(FOREIGN["web server"]) as port:
        assert main(["sim", "--limit", "1", "--carla", f"127.0.0.1:{port}", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no CARLA server" in error
    assert not out.exists()


def test_drive_doctor_names_a_web_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(FOREIGN["web server"]) as port:
        assert main(["doctor", "--carla", f"127.0.0.1:{port}", "--workspace", str(tmp_path)]) == 1
    assert "no CARLA server" in capsys.readouterr().out
