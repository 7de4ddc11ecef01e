"""Contacts of oriented boxes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.geometry.boxes import overlap
from sim.server.actors import Actor, Mover, Vehicle, Walker, make_actor
from sim.server.collisions import Pose, blocked_at_spawn, pose_of, resolve, separation

coordinate = st.floats(-6, 6)
angle = st.floats(-180, 180)


def car(actor_id: int, x: float, y: float, yaw: float = 0.0, speed: float = 0.0) -> Vehicle:
    actor = make_actor(actor_id, [1, "vehicle.lincoln.mkz_2020", []], [[x, y, 0.0], [0.0, yaw, 0.0]])
    assert isinstance(actor, Vehicle)
    actor.speed = speed
    actor.vx, actor.vy = speed * math.cos(math.radians(yaw)), speed * math.sin(math.radians(yaw))
    return actor


def walker(actor_id: int, x: float, y: float) -> Walker:
    actor = make_actor(actor_id, [1, "walker.pedestrian.0001", []], [[x, y, 0.9], [0.0, 0.0, 0.0]])
    assert isinstance(actor, Walker)
    return actor


def touching(a: Actor, b: Actor) -> bool:
    return separation(a, pose_of(a), b, pose_of(b)) is not None


@given(coordinate, coordinate, angle, angle)
def test_separation_agrees_with_the_geometry_package(x: float, y: float, yaw_a: float, yaw_b: float) -> None:
    a, b = car(1, 0.0, 0.0, yaw_a), car(2, x, y, yaw_b)
    size = np.array([2 * a.body[0], 2 * a.body[1]])
    expected = bool(overlap([0, 0, math.radians(yaw_a)], size, [x, y, math.radians(yaw_b)], size))
    push = separation(a, pose_of(a), b, pose_of(b))
    assert expected == (push is not None) or (push is None or push[0] < 1e-6)
    if push is not None:
        depth, nx, ny = push
        moved = Pose(depth * 1.001 * nx + 1e-6 * nx, depth * 1.001 * ny + 1e-6 * ny, yaw_a)
        after = separation(a, moved, b, pose_of(b))
        assert after is None or after[0] < depth


def step(moving: Mover, actors: list[Actor], dt: float = 0.05) -> list[str]:
    before = pose_of(moving)
    moving.x, moving.y = moving.x + moving.vx * dt, moving.y + moving.vy * dt
    return [f"{c.first.id}-{c.second.id}" for c in resolve([(moving, before)], actors)]


def test_head_on_contact_stops_the_mover_outside_the_other() -> None:
    mover, wall = car(1, 0.0, 0.0, speed=10.0), car(2, 5.1, 0.0)
    wall.physics = False
    assert step(mover, [mover, wall]) == ["1-2"]
    assert mover.speed <= 1.0
    assert mover.x <= wall.x - mover.body[0] - wall.body[0] + 1e-6
    assert wall.speed == 0.0


def test_glancing_contact_slides_along() -> None:
    mover, wall = car(1, 0.0, 0.0, yaw=5.0, speed=10.0), car(2, 2.0, 2.0)
    wall.physics = False
    assert step(mover, [mover, wall]) == ["1-2"]
    assert mover.speed > 8.0
    assert not touching(mover, wall) or separation(mover, pose_of(mover), wall, pose_of(wall))[0] < 1e-6


def test_car_in_front_is_pushed_on() -> None:
    mover, front = car(1, 0.0, 0.0, speed=10.0), car(2, 4.8, 0.0)
    step(mover, [mover, front])
    assert front.speed == pytest.approx(4.0, abs=0.1)


def test_driving_away_from_a_contact_is_not_held_back() -> None:
    mover, behind = car(1, 0.0, 0.0, speed=5.0), car(2, -4.8, 0.0)
    step(mover, [mover, behind])
    assert mover.speed == 5.0


def test_walker_is_pushed_aside_and_the_car_goes_on() -> None:
    mover, person = car(1, 0.0, 0.0, speed=8.0), walker(2, 2.8, 0.3)
    assert step(mover, [mover, person]) == ["1-2"]
    assert mover.speed == 8.0
    assert not touching(mover, person) or separation(mover, pose_of(mover), person, pose_of(person))[0] < 1e-6


def test_impulse_grows_with_speed_and_points_back() -> None:
    sizes = []
    for speed in (2.0, 8.0):
        mover, other = car(1, 0.0, 0.0, speed=speed), car(2, 4.8, 0.0)
        before = pose_of(mover)
        mover.x += mover.vx * 0.05
        (contact,) = resolve([(mover, before)], [mover, other])
        assert contact.impulse[0] < 0
        sizes.append(math.hypot(*contact.impulse))
    assert sizes[1] == pytest.approx(4 * sizes[0], rel=0.01)


def test_pair_of_movers_is_reported_once() -> None:
    a, b = car(1, 0.0, 0.0, speed=5.0), car(2, 4.8, 0.0, yaw=180.0, speed=5.0)
    contacts = resolve([(a, pose_of(a)), (b, pose_of(b))], [a, b])
    assert len(contacts) == 1


def test_bridges_and_debris_do_not_collide() -> None:
    mover, above = car(1, 0.0, 0.0, speed=5.0), car(2, 2.0, 0.0)
    above.z = 6.0
    debris = make_actor(3, [1, "static.prop.dirtdebris01", []], [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert step(mover, [mover, above, debris]) == []


def test_spawn_place_is_checked() -> None:
    assert blocked_at_spawn(car(0, 1.0, 0.0), [car(1, 0.0, 0.0)])
    assert not blocked_at_spawn(car(0, 6.0, 0.0), [car(1, 0.0, 0.0)])
