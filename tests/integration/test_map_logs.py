"""Logs of py123d with a map of py123d: the lanes are those of the place, and PDM judges by them."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import shapely

from drive.bench.pdm_run import bench_pdm
from drive.contracts import RoadPatch, UserError
from drive.logs import read_drive
from drive.logs.layout import SCENE, find_log
from drive.logs.lights import _begins
from drive.logs.maps import DATA_ROOT, lanes_around, map_file, road_around
from sim.routes import RouteSpec
from sim.runner import run_suite
from sim.server.opendrive import read_town
from sim.suites import Suite

TOWN = "Town03"


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root of py123d: the town's map, and a drive whose lanes and route our reader cannot see."""
    from py123d.api.map.arrow.arrow_map_writer import ArrowMapWriter
    from py123d.datatypes.metadata.map_metadata import MapMetadata
    from py123d.parser.opendrive.opendrive_map_parser import iter_xodr_map_objects

    root = tmp_path_factory.mktemp("data")
    suite = Suite("one", "", (RouteSpec("r", TOWN, 5, 120.0, start_speed_mps=5.0),))
    run_suite(suite, "expert", root / "drives")
    town = root / f"{TOWN}.xodr"
    town.write_text(read_town(TOWN), encoding="utf-8")
    writer = ArrowMapWriter(True, root / "maps", root / "logs")
    writer.reset(MapMetadata("nightdrive", TOWN, map_has_z=True, map_is_per_log=False))
    for item in iter_xodr_map_objects(town):
        writer.write_map_object(item)
    writer.close()
    log = find_log(root / "drives" / "logs", "r__expert")
    shutil.copytree(log, root / "logs" / log.parent.name / log.name)
    (root / "logs" / log.parent.name / log.name / f"{SCENE}.arrow").unlink()
    return root


def area(road: RoadPatch, around: np.ndarray) -> shapely.Geometry:
    near = shapely.LineString(around).buffer(20.0)
    rows = zip(road.centre_world, road.width_m, strict=True)
    lanes = [shapely.LineString(line).buffer(float(w) / 2, cap_style="flat") for line, w in rows]
    return shapely.union_all(lanes).intersection(near)


def test_the_lanes_are_those_of_the_place(data_root: Path) -> None:
    ours = read_drive(data_root / "drives" / "logs", "r__expert", images=False)
    theirs = read_drive(data_root / "logs", "r__expert", images=False)
    assert ours.road is not None
    assert theirs.road is not None
    path = ours.ego.pose_world[:, :2]
    one, other = area(ours.road, path), area(theirs.road, path)
    assert one.intersection(other).area / one.union(other).area > 0.9
    junctions = [float(road.in_junction.mean()) for road in (ours.road, theirs.road)]
    assert min(junctions) > 0.1


def test_pdm_judges_by_the_map(data_root: Path) -> None:
    ours = bench_pdm(data_root / "drives" / "logs", None)
    theirs = bench_pdm(data_root / "logs", None)
    assert theirs.without_map == ()
    means = [
        {(row.policy, term): row.means[term].interval.mean for row in report.rows for term in ("dac", "ddc")}
        for report in (ours, theirs)
    ]
    for found in means:  # who drove stayed on the road, which bends
        assert found["recorded drive", "dac"] == found["recorded drive", "ddc"] == 1.0
        assert found["constant_velocity", "dac"] < 0.6
    for policy in ("recorded drive", "constant_velocity", "go_straight"):
        for term in ("dac", "ddc"):
            assert means[1][policy, term] == pytest.approx(means[0][policy, term], abs=0.2)


def test_where_a_map_is_looked_for(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "elsewhere" / "split" / "log"
    log.mkdir(parents=True)
    monkeypatch.delenv(DATA_ROOT, raising=False)
    assert map_file(log, "nightdrive", TOWN) is None
    monkeypatch.setenv(DATA_ROOT, str(data_root))
    found = map_file(log, "nightdrive", TOWN)
    assert found is not None
    assert map_file(log, "nightdrive", "Town99") is None
    (log / "map.arrow").write_bytes(found.read_bytes())
    assert map_file(log, "nightdrive", "Town99") == log / "map.arrow"
    assert road_around(found, np.array([[1e5, 1e5], [1e5, 1e5 + 10]])) is None
    (log / "map.arrow").write_bytes(b"not a map")
    with pytest.raises(UserError, match="not a map that py123d reads"):
        road_around(log / "map.arrow", np.zeros((2, 2)))


def test_a_red_light_of_the_lane_that_is_driven_next_is_a_stop_line(data_root: Path) -> None:
    from py123d.api.scene.arrow.modalities.arrow_traffic_light_detections import (
        ArrowTrafficLightDetectionsWriter as Writer,
    )
    from py123d.datatypes.detections.traffic_light_detections import (
        TrafficLightDetection as Light,
    )
    from py123d.datatypes.detections.traffic_light_detections import (
        TrafficLightDetections,
        TrafficLightDetectionsMetadata,
        TrafficLightStatus,
    )
    from py123d.datatypes.time.timestamp import Timestamp

    log = read_drive(data_root / "logs", "r__expert", images=False)
    path = log.ego.pose_world[:, :2]
    folder = find_log(data_root / "logs", "r__expert")
    place = map_file(folder, "nightdrive", TOWN)
    assert place is not None
    lanes = lanes_around(place, path)
    names = {str(lane.object_id) for lane in lanes}
    begins = _begins(place, path, names)
    assert begins  # the path leads into at least one lane after its start
    name, begin = max(begins.items(), key=lambda item: item[1])
    others = [int(other) for other in sorted(names - set(begins))][:20]

    def write(status: TrafficLightStatus) -> None:
        writer = Writer(folder, TrafficLightDetectionsMetadata())
        for t_us in log.ego.t_us.tolist():
            lights = [Light(int(name), status), *(Light(other, TrafficLightStatus.RED) for other in others)]
            writer.write_modality(TrafficLightDetections(lights, Timestamp.from_us(t_us)))
        writer.close()

    try:
        write(TrafficLightStatus.RED)
        aux = read_drive(data_root / "logs", "r__expert", images=False).plans.aux
        seen = aux[:, 0] == 0.0
        assert seen.any()
        along = np.append(0.0, np.cumsum(np.hypot(*np.diff(path, axis=0).T)))[log.plans.step]
        front = log.ego_size.centre_from_axle_m + log.ego_size.length_m / 2
        assert np.allclose(aux[seen, 1], begin - along[seen] - front, atol=1e-3)
        red = bench_pdm(data_root / "logs", None, every=1)
        write(TrafficLightStatus.GREEN)
        green = bench_pdm(data_root / "logs", None, every=1)
    finally:
        (folder / "traffic_light_detections.arrow").unlink(missing_ok=True)
    passed = [
        next(row.means["tlc"].interval.mean for row in report.rows if row.policy == "recorded drive")
        for report in (red, green)
    ]
    assert passed[0] < passed[1] == 1.0  # who drove through a light that is said to be red is at fault
