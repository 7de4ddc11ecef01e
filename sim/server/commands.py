"""Batch commands: [[index, body]] rows applied in order, each answered on its own."""

from typing import Any

from sim.server import actor_calls as calls
from sim.server import forces
from sim.server.actor_calls import Handler
from sim.server.simulation import Simulation
from sim.server.wire import BAD_ARGUMENTS, LONGEST_REASON, RpcError, error, ok

_SPAWN, _DESTROY, _CONSOLE = 0, 1, 20
_HANDLERS: dict[int, Handler] = {
    2: calls.control_vehicle,
    3: calls.control_ackermann,
    4: calls.control_walker,
    5: calls.set_custom_physics,
    6: calls.move,
    7: calls.move_walker,
    8: calls.set_velocity,
    9: forces.set_turn_rate,
    10: forces.add_impulse,
    11: forces.add_force,
    12: forces.add_angular_impulse,
    13: forces.add_torque,
    14: calls.set_physics,
    15: calls.set_gravity,
    18: calls.set_lamps,
    19: calls.locate,
    21: calls.set_light,
}
_IGNORED = (16, 17)  # autopilot (the client's TrafficManager does it) and the debug overlay


def run_batch(sim: Simulation, commands: list[Any], do_tick: bool) -> list[Any]:
    """One Response<u32> per command; a failed command does not stop the others."""
    replies = [_answer(sim, command) for command in commands]
    if do_tick:
        sim.tick()
    return replies


def _answer(sim: Simulation, command: Any) -> list[Any]:
    try:
        reply: list[Any] = ok(_run(sim, command))
    except RpcError as problem:
        reply = error(str(problem))
    except BAD_ARGUMENTS as problem:
        reply = error(f"bad command ({str(problem)[:LONGEST_REASON]})")
    return reply


def _of_new_actor(command: Any, actor_id: int) -> Any:
    """The command with the new actor's id where it names the actor to come, id 0."""
    ((index, body),) = command
    if index == _SPAWN:
        parent = [True, actor_id] if body[2][0] and body[2][1] == 0 else body[2]
        return [[index, [*body[:2], parent, *body[3:]]]]
    return [[index, [body[0] or actor_id, *body[1:]]]]


def _run(sim: Simulation, command: Any) -> int:
    ((index, body),) = command
    if index == _SPAWN:
        description, transform, parent, _, _, then = body
        actor_id: int = calls.spawn(sim, description, transform, parent[1] if parent[0] else 0)[0]
        for following in then:
            _run(sim, _of_new_actor(following, actor_id))
        return actor_id
    if index == _DESTROY:
        calls.destroy(sim, body[0])
    elif index in _HANDLERS:
        _HANDLERS[index](sim, *body)
    elif index not in _IGNORED:
        raise RpcError(
            "console commands are not available" if index == _CONSOLE else f"unknown command {index}"
        )
    return int(body[0])
