"""`drive serve-sim`: start the light CARLA-compatible server and keep it until interrupted."""

import argparse
import socket
from contextlib import suppress

from drive.contracts import UserError

STREAM_PORTS = 1  # the server streams sensor data on port + 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive serve-sim`."""
    parser.add_argument("--town", default="Town03", metavar="NAME", help="CARLA town (default: %(default)s)")
    parser.add_argument("--port", type=int, default=2000, help="RPC port (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted; bad town, port or address are refused before anything starts."""
    from drive.cli import output
    from sim.server.opendrive import available_towns

    if args.town not in available_towns():
        raise UserError(f"--town {args.town}: unknown town; choose one of {', '.join(available_towns())}")
    if not 1024 <= args.port <= 65535 - STREAM_PORTS:
        raise UserError(f"--port {args.port}: choose a port from 1024 to {65535 - STREAM_PORTS}")
    for port in range(args.port, args.port + 1 + STREAM_PORTS):
        check_port(args.host, port)
    address = {"town": args.town, "host": args.host, "port": args.port}
    output.finish(args, {"simulator": "light simulator", **address})

    from sim.server.main import serve

    print(
        f"light simulator, {args.town}: carla.Client({args.host!r}, {args.port}); Ctrl-C stops it", flush=True
    )
    with suppress(KeyboardInterrupt):  # while the town is loaded; later the server sees to it itself
        serve(args.town, args.port, args.host)
    return 0


def check_port(host: str, port: int) -> None:
    """Raise UserError unless a TCP port can be listened on."""
    if not host.strip():  # to the socket library that means every address of the machine
        raise UserError("--host: is empty; give an address of this machine, such as 127.0.0.1")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (socket.gaierror, TypeError, UnicodeError):  # the latter two: a name that cannot be one
        raise UserError(f"--host {host}: not an address of this machine") from None
    except OSError as error:
        raise UserError(f"--port: {host}:{port} cannot be used ({error.strerror}); choose another") from None
