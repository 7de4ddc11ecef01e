"""Episode stream: one packed state per actor and tick."""

from sim.server.actors import Actor, SignActor, TrafficLight, Vehicle, Walker
from sim.server.wire import (
    ACTOR,
    ACTOR_STATE_BYTES,
    ELAPSED_AT,
    EPISODE,
    GREEN,
    HEADER,
    NO_STATE,
    RED,
    SECONDS,
    SIGN,
    TRAFFIC_LIGHT,
    VEHICLE_STATE,
    WALKER,
    WORLD,
    YELLOW,
)
from sim.server.world import World

_ACTIVE = 1


class SnapshotWriter:
    """Packs snapshots of one episode; signs, lights and props are packed anew only when they change."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._fixed = bytearray()
        self._offsets: dict[int, int] = {}
        self._version = -1

    def pack(self, simulation_state: int) -> bytes:
        """Current state of all actors; equal for equal simulation histories (no wall clock in it)."""
        world = self.world
        self._update_fixtures()
        parts: list[bytes | bytearray] = [
            HEADER.pack(WORLD, world.frame, world.elapsed_s, 0, 0, 0, 0, 0, 0),
            EPISODE.pack(world.episode_id, world.elapsed_s, world.delta_s, 0, 0, 0, simulation_state),
            self._fixed,
        ]
        for actor in world.roamers.values():
            if isinstance(actor, Vehicle):
                parts.append(VEHICLE_STATE.pack(*_pose(actor), *_vehicle(actor)))
            else:
                parts.append(ACTOR.pack(*_pose(actor)))
                parts.append(_walker(actor) if isinstance(actor, Walker) else NO_STATE)
        return b"".join(parts)

    def _update_fixtures(self) -> None:
        world = self.world
        if self._version != world.fixtures_version:
            self._version = world.fixtures_version
            self._fixed = bytearray(ACTOR_STATE_BYTES * len(world.fixtures))
            self._offsets = {
                actor_id: ACTOR_STATE_BYTES * place for place, actor_id in enumerate(world.fixtures)
            }
            stale = set(self._offsets)
        else:
            stale = world.changed
        for actor_id in stale:
            offset = self._offsets.get(actor_id)
            if offset is not None:
                self._write(offset, world.fixtures[actor_id])
        world.changed.clear()
        for group in world.light_groups:
            active = group.controllers[group.active]
            for light in active.lights:
                SECONDS.pack_into(self._fixed, self._offsets[light.id] + ELAPSED_AT, active.elapsed_s)

    def _write(self, offset: int, actor: Actor) -> None:
        ACTOR.pack_into(self._fixed, offset, *_pose(actor))
        if isinstance(actor, TrafficLight):
            controller = actor.controller
            TRAFFIC_LIGHT.pack_into(
                self._fixed,
                offset + ACTOR.size,
                actor.sign_id,
                controller.times_s[GREEN],
                controller.times_s[YELLOW],
                controller.times_s[RED],
                controller.elapsed_s,
                actor.pole,
                actor.frozen or self.world.lights_frozen,
                actor.state,
            )
        elif isinstance(actor, SignActor):
            SIGN.pack_into(self._fixed, offset + ACTOR.size, actor.sign_id)


def _pose(a: Actor) -> tuple[float, ...]:
    return (
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


def _vehicle(vehicle: Vehicle) -> tuple[float, ...]:
    light = vehicle.light
    # Without a light in force the state must read green: the TrafficManager stalls on anything else.
    state, light_id = (light.state, light.id) if light is not None else (GREEN, 0)
    return (*vehicle.control, vehicle.speed_limit_kmh, state, light is not None, light_id, 0)


def _walker(walker: Walker) -> bytes:
    direction, speed, jump = walker.control
    return WALKER.pack(*direction, speed, jump)
