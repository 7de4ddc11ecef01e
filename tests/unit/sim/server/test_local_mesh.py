"""Large towns, drawn bit by bit: the same as a whole, and the same whatever was looked at before."""

import numpy as np
import pytest

from drive.viz.quads import Layer, Quads, TiledQuads
from sim.server.houses import Streets
from sim.server.local_mesh import LocalMesh, is_large
from sim.server.mesh import build_mesh
from sim.server.opendrive import read_town
from sim.server.render_pool import Order, RenderPool
from sim.server.scene import view_of
from tests.sensor_builders import camera

PLACES = ((41.0, -212.0), (-7.0, -180.0), (150.0, -190.0), (100.0, -106.0))
RANGE_M = 60.0


@pytest.fixture(scope="module")
def xodr() -> str:
    return read_town("Town02")


@pytest.fixture(scope="module")
def whole(xodr: str) -> Quads:
    return build_mesh(xodr)


def flat(quads: Quads) -> list[bytes]:
    """Everything but houses and poles, in an order that is the same for equal quads."""
    rows = np.flatnonzero((quads.layer != Layer.SOLID) & (quads.layer != Layer.PANE))
    parts = (
        quads.corners[rows].reshape(-1, 12),
        quads.colour[rows],
        quads.layer[rows],
        quads.tag[rows],
    )
    return sorted(b"".join(part[i].tobytes() for part in parts) for i in range(len(rows)))


def same(one: Quads, other: Quads) -> bool:
    return all(
        np.array_equal(getattr(one, k), getattr(other, k)) for k in ("corners", "colour", "layer", "tag")
    )


def test_roads_are_those_of_the_whole_town(xodr: str, whole: Quads) -> None:
    bit_by_bit, tiled = LocalMesh(xodr), TiledQuads(whole)
    for x, y in PLACES:
        expected = flat(tiled.near(x, y, RANGE_M).quads)
        assert len(expected) > 100
        assert flat(bit_by_bit.near(x, y, RANGE_M).quads) == expected


def test_what_was_looked_at_before_changes_nothing(xodr: str) -> None:
    travelled = LocalMesh(xodr)
    for x, y in PLACES:
        found = travelled.near(x, y, RANGE_M).quads
        assert (found.layer == Layer.SOLID).any()
        assert same(found, LocalMesh(xodr).near(x, y, RANGE_M).quads)
    for x, y in PLACES:
        assert same(travelled.near(x, y, RANGE_M).quads, LocalMesh(xodr).near(x, y, RANGE_M).quads)


def test_houses_stand_beside_the_lanes_and_not_in_each_others_place(xodr: str, whole: Quads) -> None:
    streets = Streets()
    streets.add(whole.corners[whole.layer == Layer.ROAD].reshape(-1, 3).astype(np.float64))
    mesh = LocalMesh(xodr)
    for x, y in PLACES:
        mesh.near(x, y, RANGE_M)
    roofs = [h.quads.corners[-1] for h in mesh._houses.values() if h is not None]
    cells = [(int(x // 4), int(y // 4)) for x, y, _ in (roof.mean(0) for roof in roofs)]
    assert len(cells) > 10
    assert not set(cells) & streets._cells


def test_nothing_is_drawn_far_from_any_road(xodr: str) -> None:
    assert len(LocalMesh(xodr).near(50_000.0, 50_000.0, RANGE_M).radius) == 0
    assert len(LocalMesh("<OpenDRIVE></OpenDRIVE>").near(0.0, 0.0, RANGE_M).radius) == 0


def test_helpers_draw_the_same_town_bit_by_bit(xodr: str) -> None:
    x, y = PLACES[0]
    wanted = [Order(view_of(camera([[x, -y, 1.7], [0.0, 90.0 * i, 0.0]])), []) for i in range(2)]
    helped, alone = (RenderPool(xodr, LocalMesh(xodr), workers=count) for count in (1, 0))
    try:
        pictures = helped.paint(wanted)
        assert pictures == alone.paint(wanted)
        assert pictures[0] != pictures[1]
    finally:
        helped.close()


def test_towns_for_which_the_base_model_was_made_are_drawn_as_a_whole() -> None:
    assert not any(
        is_large(read_town(f"Town{name}")) for name in ("01", "02", "03", "04", "05", "07", "10HD")
    )
    assert is_large(read_town("Town11"))
