"""Requests that push or turn a mover: impulses, forces, torques, turn rates, for the next tick only.

The kinematic model has no tyres that slip: of a push, vehicles keep the part along their heading, and a turn
rate lasts for one tick. A vehicle weighs what its physics control says.
"""

import math
from typing import Any

from sim.server import physics
from sim.server.actor_calls import NOMINAL_KG, find, numbers
from sim.server.actors import Mover, Vehicle, Walker
from sim.server.simulation import Simulation

WALKER_KG = 75.0
_HARDEST = 1e12
_MASS_COLUMN = 11


def mass_kg(mover: Mover) -> float:
    """Mass of the physics control; at least 1 kg."""
    if isinstance(mover, Vehicle) and mover.custom_physics is not None:
        return max(1.0, float(mover.custom_physics[_MASS_COLUMN]))
    return NOMINAL_KG if isinstance(mover, Vehicle) else WALKER_KG


def yaw_inertia_kgm2(mover: Mover) -> float:
    """Moment of inertia of a uniform box about its upright axis."""
    length, width, _ = mover.body
    return mass_kg(mover) * (length * length + width * width) / 3.0


def _push(mover: Mover, impulse: list[float]) -> None:
    share = 1.0 / mass_kg(mover)
    velocity = numbers([mover.vx + share * impulse[0], mover.vy + share * impulse[1], 0.0], 3)
    physics.set_velocity(mover, velocity)


def add_impulse(sim: Simulation, actor_id: int, impulse: Any) -> None:
    """Impulse [N s] in the world frame."""
    _push(find(sim, actor_id, Mover), numbers(impulse, 3, _HARDEST))


def add_force(sim: Simulation, actor_id: int, force: Any) -> None:
    """Force [N] in the world frame during one tick."""
    _push(find(sim, actor_id, Mover), [part * sim.delta_s for part in numbers(force, 3, _HARDEST)])


def add_impulse_at(sim: Simulation, actor_id: int, impulse: Any, _location: Any) -> None:
    """Impulse [N s]; where it acts makes no difference here."""
    add_impulse(sim, actor_id, impulse)


def add_force_at(sim: Simulation, actor_id: int, force: Any, _location: Any) -> None:
    """Force [N] during one tick; where it acts makes no difference here."""
    add_force(sim, actor_id, force)


def set_turn_rate(sim: Simulation, actor_id: int, rate_dps: Any) -> None:
    """Turn rate [deg/s] about the upright axis during the next tick, added to that of the wheels."""
    find(sim, actor_id, Mover).spin_dps = numbers(rate_dps, 3)[2]


def add_angular_impulse(sim: Simulation, actor_id: int, impulse: Any) -> None:
    """Angular impulse [kg m2 rad/s]."""
    mover = find(sim, actor_id, Mover)
    change = math.degrees(numbers(impulse, 3, _HARDEST)[2] / yaw_inertia_kgm2(mover))
    mover.spin_dps = numbers([mover.spin_dps + change], 1)[0]


def add_torque(sim: Simulation, actor_id: int, torque: Any) -> None:
    """Torque [N m] during one tick."""
    add_angular_impulse(sim, actor_id, [part * sim.delta_s for part in numbers(torque, 3, _HARDEST)])


def set_collisions(sim: Simulation, actor_id: int, enabled: bool) -> None:
    """May anything touch the actor?"""
    find(sim, actor_id, Mover).collides = bool(enabled)


def set_dead(sim: Simulation, actor_id: int) -> None:
    """A walker stops where it is for good; a vehicle is left alone."""
    mover = find(sim, actor_id, Mover)
    if isinstance(mover, Walker):
        mover.dead = True
        mover.control = [mover.control[0], 0.0, False]
