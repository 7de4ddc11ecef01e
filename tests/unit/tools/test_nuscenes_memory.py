"""The memory tool's made-up tables are sound, and it reports a peak."""

from pathlib import Path

from drive.bench.nuscenes_scenes import read_scenes
from drive.bench.nuscenes_tables import open_tables
from tools.bench.nuscenes_memory import BOXES, FRAMES, measure, official_scenes, write_tables


def test_as_many_scenes_as_asked_for() -> None:
    for limit, val in ((2, 1), (7, 4), (850, 150)):
        names = official_scenes(limit)
        assert len(set(names)) == limit
        assert names[:val] == official_scenes(None)[:val]


def test_two_scenes_are_scored_in_little_memory(tmp_path: Path) -> None:
    scenes = official_scenes(2)
    predictions = write_tables(tmp_path / "data", scenes, sweeps=1)
    tables = open_tables(tmp_path / "data", "v1.0-trainval")
    for track in read_scenes(tables, scenes):
        assert track.pose_world.shape == (FRAMES, 3)
        assert track.agents.valid.shape == (BOXES, FRAMES)
        assert track.agents.valid.all()
    peak, seconds = measure(tmp_path / "data", predictions)
    assert 0.05 < peak < 1.0
    assert seconds > 0
