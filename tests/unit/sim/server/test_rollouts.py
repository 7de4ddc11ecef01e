"""Golden rollouts: scripted drives end where they ended when they were recorded, and twice to the bit.

After a wanted change of the physics, `python -m tests.unit.sim.server.test_rollouts` writes the poses anew;
look at the difference before committing it.
"""

import json
import math
from pathlib import Path

import pytest

from sim.server.rpc import answer
from sim.server.simulation import Simulation
from sim.server.snapshot import SnapshotWriter

GOLDEN = Path(__file__).parent / "rollouts.json"
TOWNS = ("Town01", "Town03")
SETTINGS = [True, False, [True, 0.05], True, 0.01, 10, 0.0, True, 3000.0, 2000.0, True]
KINDS = ("lincoln.mkz_2020", "mercedes.sprinter", "carlamotors.firetruck", "yamaha.yzf", "gazelle.omafiets")
TICKS, EVERY = 200, 50
CLOSE_M = 0.005  # sine and cosine may differ in the last bit between machines


def rollout(town: str) -> tuple[dict[str, list[list[float]]], list[bytes]]:
    """Poses (x, y, z, yaw) of all movers every 50 ticks, and the snapshot of every tick."""
    sim = Simulation(town, 1)
    sim.set_settings(SETTINGS)

    def call(name: str, *arguments: object) -> list[object]:
        error, reply = answer(sim, name, list(arguments), False)
        assert error is None
        assert reply[0][0] in (1, False), reply
        return reply[0][1] if len(reply[0]) > 1 else []

    points = sim.world.town.spawn_points[:: len(sim.world.town.spawn_points) // 12]
    cars = [
        call("spawn_actor", [1, f"vehicle.{kind}", []], at)[0]
        for kind, at in zip(KINDS, points, strict=False)
    ]
    (x, y, z), turn = points[7]
    man = call("spawn_actor", [1, "walker.pedestrian.0004", []], [[x, y, z + 1.0], turn])[0]
    last = sim.world.actors[int(str(cars[0]))]
    call("spawn_actor", [1, "static.prop.trafficcone01", []], [[last.x, last.y + 6.0, 0.0], [0.0] * 3])
    call("apply_control_to_walker", man, [[1.0, 0.3, 0.0], 1.3, False])
    poses: dict[str, list[list[float]]] = {}
    snapshots = []
    for tick in range(TICKS):
        for index, car in enumerate(cars):
            phase = (tick // 10 + 3 * index) % 12
            pedals = [0.7, 0.0] if phase < 9 else [0.0, 0.4]
            steer = (phase - 5) / 40
            call("apply_control_to_vehicle", car, [pedals[0], steer, pedals[1], False, False, False, 1])
        sim.tick()
        snapshots.append(SnapshotWriter(sim.world).pack(0))
        if tick % EVERY == EVERY - 1:
            movers = sim.world.movers.values()
            poses[str(tick + 1)] = [[round(v, 4) for v in (m.x, m.y, m.z, m.yaw)] for m in movers]
    return poses, snapshots


@pytest.mark.parametrize("town", TOWNS)
def test_scripted_drives_end_where_they_ended(town: str) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))[town]
    poses, snapshots = rollout(town)
    assert poses.keys() == golden.keys()
    for tick, rows in poses.items():
        for number, (now, then) in enumerate(zip(rows, golden[tick], strict=True)):
            assert now[:3] == pytest.approx(then[:3], abs=CLOSE_M), (tick, number)
            assert (now[3] - then[3] + 180) % 360 - 180 == pytest.approx(0.0, abs=0.05), (tick, number)
    assert rollout(town)[1] == snapshots


def test_the_scripted_drives_move_and_turn() -> None:
    for ticks in json.loads(GOLDEN.read_text(encoding="utf-8")).values():
        first, last = ticks[str(EVERY)], ticks[str(TICKS)]
        gone = [math.dist(a[:2], b[:2]) for a, b in zip(first, last, strict=True)]
        assert sum(metres > 3.0 for metres in gone) >= len(gone) - 1  # one drives against a cone


if __name__ == "__main__":
    GOLDEN.write_text(
        json.dumps({town: rollout(town)[0] for town in TOWNS}, indent=1) + "\n", encoding="utf-8"
    )
