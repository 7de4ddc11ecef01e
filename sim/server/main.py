"""Light CARLA server: `python -m sim.server --town Town03 --port 2000`."""

import argparse
import asyncio
import logging
import os
import signal
import sys

from drive.contracts import UserError
from sim.server.connections import RpcConnection, StreamConnection
from sim.server.simulation import Simulation

_FREE_RUN_S = 0.05
_PARENT_CHECK_S = 0.5


def serve(town: str, port: int, host: str = "127.0.0.1", parent_pid: int | None = None) -> int:
    """Serve until SIGTERM or SIGINT, or until the parent process is gone.

    Prints "serving HOST:PORT TOWN" when clients can connect; streams use the next port.

    Args:
        town: First town, e.g. "Town03"; clients may load others.
        port: RPC port; port + 1 must be free as well.
        host: Address to listen on; the protocol has no authentication, so keep it on loopback.
        parent_pid: Process whose end ends the server.

    Returns:
        Exit code 0.

    Raises:
        UserError: Unknown town, or a port that cannot be used.
    """
    if not 0 < port < 65535:
        raise UserError(f"port {port} is out of range; choose one from 1 to 65534")
    simulation = Simulation(town, port + 1)
    asyncio.run(_serve(simulation, host, port, parent_pid))
    return 0


async def _serve(sim: Simulation, host: str, port: int, parent_pid: int | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        streams = await loop.create_server(lambda: StreamConnection(sim), host, port + 1)
        requests = await loop.create_server(lambda: RpcConnection(sim), host, port)
    except OSError as problem:
        raise UserError(
            f"cannot listen on {host}:{port} and {port + 1} ({problem.strerror}); choose another port"
        ) from None
    print(f"serving {host}:{port} {sim.world.town.name}", flush=True)
    tasks = [asyncio.create_task(_free_run(sim))]
    if parent_pid is not None:
        tasks.append(asyncio.create_task(_watch_parent(parent_pid, stop)))
    await stop.wait()
    for task in tasks:
        task.cancel()
    requests.close()
    streams.close()


async def _free_run(sim: Simulation) -> None:
    """In asynchronous mode time passes by itself; clients wait for the first snapshot."""
    while True:
        await asyncio.sleep(_FREE_RUN_S)
        if not sim.synchronous:
            sim.tick()


async def _watch_parent(pid: int, stop: asyncio.Event) -> None:
    while os.getppid() == pid or _alive(pid):
        await asyncio.sleep(_PARENT_CHECK_S)
    stop.set()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main(argv: list[str] | None = None) -> int:
    """Command line; exit code 2 with one line for bad input."""
    parser = argparse.ArgumentParser(prog="python -m sim.server", description="Light CARLA 0.9.16 server")
    parser.add_argument("--town", default="Town01", help="first town, e.g. Town03")
    parser.add_argument("--port", type=int, default=2000, help="RPC port; streams use the next one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (no authentication)")
    parser.add_argument("--parent-pid", type=int, help="exit when this process ends")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    try:
        return serve(args.town, args.port, args.host, args.parent_pid)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
