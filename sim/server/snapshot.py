"""Episode stream: one packed state per actor and tick."""

from sim.server.actors import Actor, SignActor, TrafficLight, Vehicle, Walker
from sim.server.wire import (
    ACTOR,
    EPISODE,
    GREEN,
    HEADER,
    NO_STATE,
    RED,
    SIGN,
    TRAFFIC_LIGHT,
    VEHICLE,
    WALKER,
    WORLD,
    YELLOW,
)
from sim.server.world import World

_ACTIVE = 1
_STATIC = ("static", "sign", "traffic_light")


class SnapshotWriter:
    """Packs snapshots of one episode; static actors are packed once and again when marked as changed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._static: dict[int, bytes] = {}

    def pack(self, simulation_state: int) -> bytes:
        """Current state of all actors; equal for equal simulation histories (no wall clock in it)."""
        world = self.world
        for actor_id in world.changed:
            self._static.pop(actor_id, None)
        world.changed.clear()
        parts = [
            HEADER.pack(WORLD, world.frame, world.elapsed_s, 0, 0, 0, 0, 0, 0),
            EPISODE.pack(world.episode_id, world.elapsed_s, world.delta_s, 0, 0, 0, simulation_state),
        ]
        for actor in world.actors.values():
            if actor.kind in _STATIC:
                blob = self._static.get(actor.id)
                if blob is None:
                    blob = self._static[actor.id] = _pose(actor) + self._sign_state(actor)
                parts.append(blob)
            else:
                parts.append(_pose(actor))
                parts.append(_mover_state(actor))
        return b"".join(parts)

    def _sign_state(self, actor: Actor) -> bytes:
        if isinstance(actor, TrafficLight):
            controller = actor.controller
            return TRAFFIC_LIGHT.pack(
                actor.sign_id,
                controller.times_s[GREEN],
                controller.times_s[YELLOW],
                controller.times_s[RED],
                controller.elapsed_s,
                actor.pole,
                actor.frozen or self.world.lights_frozen,
                actor.state,
            )
        return SIGN.pack(actor.sign_id) if isinstance(actor, SignActor) else NO_STATE


def _pose(a: Actor) -> bytes:
    return ACTOR.pack(
        a.id,
        _ACTIVE,
        a.x,
        a.y,
        a.z,
        a.pitch,
        a.yaw,
        a.roll,
        a.vx,
        a.vy,
        a.vz,
        0.0,
        0.0,
        a.wz,
        a.ax,
        a.ay,
        0.0,
    )


def _mover_state(actor: Actor) -> bytes:
    if isinstance(actor, Vehicle):
        light = actor.light
        # Without a light in force the state must read green: the TrafficManager stalls on anything else.
        state, light_id = (light.state, light.id) if light is not None else (GREEN, 0)
        return VEHICLE.pack(*actor.control, actor.speed_limit_kmh, state, light is not None, light_id, 0)
    if isinstance(actor, Walker):
        direction, speed, jump = actor.control
        return WALKER.pack(*direction, speed, jump)
    return NO_STATE
