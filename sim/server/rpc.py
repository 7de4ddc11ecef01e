"""The RPC functions of the server and how their results are wrapped."""

import logging
import math
from collections.abc import Callable
from enum import Enum
from typing import Any

from drive.contracts import UserError
from sim.server import actor_calls as calls
from sim.server import forces, raycast
from sim.server.actor_calls import Handler, numbers
from sim.server.blueprints import definitions
from sim.server.commands import run_batch
from sim.server.opendrive import available_towns
from sim.server.sensors import GRAVITY_MPS2
from sim.server.simulation import Simulation
from sim.server.wire import (
    BAD_ARGUMENTS,
    EPISODE_STREAM,
    LONGEST_REASON,
    VERSION,
    VOID,
    RpcError,
    error,
    error_void,
    ok,
    token,
)

log = logging.getLogger(__name__)
TICK = "tick_cue"
NO_RECORDER = "the light simulator records nothing on the server; record drives on the client's side"


class Wrap(Enum):
    """Form of a reply: Response<T>, Response<void> or the bare value."""

    VALUE = "value"
    VOID = "void"
    RAW = "raw"


def _project(sim: Simulation, location: Any, direction: Any, distance: float) -> list[Any]:
    hit = raycast.project(sim.world, numbers(location, 3), numbers(direction, 3), numbers([distance], 1)[0])
    return [False, [[0.0, 0.0, 0.0], 0]] if hit is None else [True, hit]


def _cast(sim: Simulation, start: Any, end: Any) -> list[Any]:
    return raycast.cast(sim.world, numbers(start, 3), numbers(end, 3))


def _set_weather(sim: Simulation, weather: list[float]) -> None:
    values = [float(value) for value in weather]
    if len(values) != len(sim.world.weather) or not all(map(math.isfinite, values)):
        raise RpcError(f"weather: expected {len(sim.world.weather)} finite numbers, got {len(values)}")
    sim.world.weather = values


def _day_night_cycle(sim: Simulation, *arguments: Any) -> bool:
    """Street lamps follow the sun, or stay as they are."""
    world = sim.world
    world.street_lamps = None if arguments[-1] else world.street_lamps_lit
    return True


def _register_manager(sim: Simulation, address: list[Any]) -> bool:
    host, port = str(address[0]), int(address[1])
    if not 0 < port < 65536 or len(host) > 255:
        raise RpcError(f"traffic manager: no address: {host[:255]}:{port}")
    sim.traffic_managers[port] = host
    return True


def _manager(sim: Simulation, port: int) -> list[Any]:
    return [sim.traffic_managers[port], port] if port in sim.traffic_managers else ["", 0]


def _remove_manager(sim: Simulation, port: int) -> bool:
    return sim.traffic_managers.pop(port, None) is not None


def _ignore(sim: Simulation, *_: Any) -> None:
    """Accepted, without effect in this simulator."""


def _empty(sim: Simulation, *_: Any) -> list[Any]:
    return []


def _episode(sim: Simulation) -> list[Any]:
    return [sim.world.episode_id, [token(EPISODE_STREAM, sim.stream_port)]]


def _no_recorder(sim: Simulation, *_: Any) -> str:
    return NO_RECORDER


_BLUEPRINTS = definitions()
_RECORDER = (
    "start_recorder",
    "show_recorder_file_info",
    "show_recorder_collisions",
    "show_recorder_actors_blocked",
    "replay_file",
)
_VALUES: dict[str, Handler] = {
    "version": lambda sim: VERSION,
    "get_episode_info": _episode,
    "get_sensor_token": lambda sim, stream: [sim.announce(stream)],
    "get_episode_settings": lambda sim: sim.settings,
    "set_episode_settings": lambda sim, settings: sim.set_settings(settings),
    "get_map_info": lambda sim: [f"Carla/Maps/{sim.world.town.name}", sim.world.town.spawn_points],
    "get_map_data": lambda sim: sim.world.town.xodr,
    "get_required_files": _empty,
    "get_available_maps": lambda sim: [f"/Game/Carla/Maps/{name}" for name in available_towns()],
    "get_actor_definitions": lambda sim: _BLUEPRINTS,
    "get_spectator": lambda sim: sim.world.spectator.wire(),
    "get_weather_parameters": lambda sim: sim.world.weather,
    TICK: lambda sim: sim.tick(),
    "get_actors_by_id": calls.describe,
    "spawn_actor": calls.spawn,
    "spawn_actor_with_parent": calls.spawn,
    "destroy_actor": calls.destroy,
    "get_actor_bounding_box": calls.bounding_box,
    "get_actor_component_names": _empty,
    "get_actor_bone_names": _empty,
    "get_actor_socket_names": _empty,
    "get_physics_control": calls.physics_control,
    "get_telemetry_data": calls.telemetry,
    "get_wheel_steer_angle": calls.wheel_angle,
    "get_vehicle_light_state": calls.lamps,
    "get_vehicle_light_states": calls.all_lamps,
    "get_group_traffic_lights": calls.light_group,
    "get_light_boxes": calls.light_boxes,
    "is_traffic_manager_running": lambda sim, port: port in sim.traffic_managers,
    "get_traffic_manager_running": _manager,
    "add_traffic_manager_running": _register_manager,
    "destroy_traffic_manager": _remove_manager,
    "query_lights_state": _empty,
    "update_lights_state": lambda sim, *_: True,
    "update_day_night_cycle": _day_night_cycle,
    "get_all_level_BBs": calls.level_boxes,
    "get_environment_objects": _empty,
    "get_names_of_all_objects": _empty,
    "cast_ray": _cast,
    "project_point": _project,
    "get_navigation_mesh": lambda sim: b"",
    "get_wheel_pitch_angle": lambda sim, actor_id, wheel: 0.0,
    **dict.fromkeys(_RECORDER, _no_recorder),
    "get_imui_gravity": lambda sim: GRAVITY_MPS2,
    "is_sensor_enabled_for_ros": lambda sim, stream: False,
}
_VOIDS: dict[str, Handler] = {
    "load_new_episode": lambda sim, name, reset, *_: sim.request_load(name, reset),
    "copy_opendrive_to_file": lambda sim, xodr, *_: sim.use_opendrive(xodr),
    "set_weather_parameters": _set_weather,
    "apply_control_to_vehicle": calls.control_vehicle,
    "apply_ackermann_control_to_vehicle": calls.control_ackermann,
    "apply_control_to_walker": calls.control_walker,
    "set_actor_transform": calls.move,
    "set_actor_location": calls.locate,
    "set_walker_state": calls.move_walker,
    "set_actor_target_velocity": calls.set_velocity,
    "set_actor_target_angular_velocity": forces.set_turn_rate,
    "add_actor_impulse": forces.add_impulse,
    "add_actor_impulse_at_location": forces.add_impulse_at,
    "add_actor_force": forces.add_force,
    "add_actor_force_at_location": forces.add_force_at,
    "add_actor_angular_impulse": forces.add_angular_impulse,
    "add_actor_torque": forces.add_torque,
    "set_actor_collisions": forces.set_collisions,
    "set_actor_dead": forces.set_dead,
    "enable_actor_constant_velocity": calls.hold_velocity,
    "disable_actor_constant_velocity": calls.release_velocity,
    "set_actor_simulate_physics": calls.set_physics,
    "set_actor_enable_gravity": calls.set_gravity,
    "set_vehicle_light_state": calls.set_lamps,
    "open_vehicle_door": calls.open_door,
    "close_vehicle_door": calls.close_door,
    "apply_physics_control": calls.set_custom_physics,
    "set_traffic_light_state": calls.set_light,
    "set_traffic_light_green_time": calls.set_green_time,
    "set_traffic_light_yellow_time": calls.set_yellow_time,
    "set_traffic_light_red_time": calls.set_red_time,
    "freeze_traffic_light": calls.freeze_light,
    "reset_traffic_light_group": calls.reset_group,
    "freeze_all_traffic_lights": lambda sim, frozen: sim.world.freeze_lights(bool(frozen)),
    "reset_all_traffic_lights": lambda sim: sim.world.reset_lights(),
}
_WITHOUT_EFFECT = (
    "show_vehicle_debug_telemetry",
    "draw_debug_shape",
    "enable_environment_objects",
    "load_map_layer",
    "unload_map_layer",
    "stop_recorder",
    "stop_replayer",
    "set_replayer_time_factor",
    "set_replayer_ignore_hero",
    "set_replayer_ignore_spectator",
    "set_imui_gravity",
    "enable_sensor_for_ros",
    "disable_sensor_for_ros",
    "set_wheel_steer_direction",
    "set_wheel_pitch_angle",
    "restore_physx_physics",
    "set_annotations_traverse_translucency",
)
_VOIDS |= dict.fromkeys(_WITHOUT_EFFECT, _ignore)
_RAWS: dict[str, Handler] = {"apply_batch": run_batch}

FUNCTIONS: dict[str, tuple[Handler, Wrap]] = {
    **{name: (handler, Wrap.VALUE) for name, handler in _VALUES.items()},
    **{name: (handler, Wrap.VOID) for name, handler in _VOIDS.items()},
    **{name: (handler, Wrap.RAW) for name, handler in _RAWS.items()},
}


def answer(sim: Simulation, name: str, arguments: list[Any], is_async: bool) -> tuple[str | None, Any]:
    """Run one request.

    Returns:
        (transport error or None, reply). Bad arguments and refused requests become error replies.
    """
    entry = FUNCTIONS.get(name)
    if entry is None:
        log.warning("unknown function %s", name)
        if is_async:
            return None, VOID
        return (
            f"rpclib: server could not find function '{name}' with argument count {len(arguments) + 1}.",
            None,
        )
    handler, wrap = entry
    try:
        value = handler(sim, *arguments)
    except (RpcError, UserError) as problem:
        return None, _failure(str(problem)[:LONGEST_REASON], wrap)
    except BAD_ARGUMENTS as problem:
        short = str(problem)[:LONGEST_REASON]  # it may quote what was sent
        log.warning("%s refused: %s: %s", name, type(problem).__name__, short)
        return None, _failure(f"{name}: bad arguments ({short})", wrap)
    return None, VOID if wrap is Wrap.VOID else value if wrap is Wrap.RAW else ok(value)


def _failure(message: str, wrap: Wrap) -> Any:
    wrapper: Callable[[str], Any] = error_void if wrap is Wrap.VOID else error
    return wrapper(message)
