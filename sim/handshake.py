"""What listens at an address, asked first: foreign answers abort the process in CARLA's client."""

import socket

from drive.contracts import UserError

QUESTION = b"\x94\x00\x01\xa7version\x91\x91\xc2"  # msgpack: [request, id 1, "version", [[not async]]]
ANSWER = b"\x94\x01"  # of four: [response, ...


def check_protocol(host: str, port: int, timeout_s: float) -> None:
    """Raise UserError if something other than a CARLA server answers.

    Nobody there, silence and closed connections are left to the client, which says so itself.
    """
    if not ANSWER.startswith(first_bytes(host, port, timeout_s)):
        raise UserError(
            f"{host}:{port}: what answers there is no CARLA server; give its RPC port (2000 by default)"
        )


def first_bytes(host: str, port: int, timeout_s: float) -> bytes:
    """Beginning of the answer to a request for the version: what came, as long as `ANSWER` at most."""
    head = b""
    try:
        with socket.create_connection((host, port), timeout_s) as link:
            link.sendall(QUESTION)
            while len(head) < len(ANSWER) and (more := link.recv(len(ANSWER) - len(head))):
                head += more
    except (OSError, UnicodeError):  # the latter: a name that no host can have
        pass
    return head
