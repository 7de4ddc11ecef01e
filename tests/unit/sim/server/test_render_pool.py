"""Helper processes paint the same bytes, and their death costs time, not pictures."""

import os
import signal
from collections.abc import Iterator

import numpy as np
import psutil
import pytest

from drive.viz import figures
from drive.viz.quads import Quads, TiledQuads, concatenate
from sim.server.render_pool import Order, RenderPool
from sim.server.scene import view_of
from tests.sensor_builders import camera


@pytest.fixture(scope="module")
def town() -> Quads:
    rng = np.random.default_rng(1)
    return concatenate(
        [
            figures.box((*rng.uniform(-40, 40, 2), 0.0), (3.0, 2.0), 6.0, tuple(rng.integers(0, 255, 3)))
            for _ in range(60)
        ]
    )


@pytest.fixture
def pool(town: Quads) -> Iterator[RenderPool]:
    made = RenderPool(town, TiledQuads(town), workers=2)
    yield made
    made.close()


def orders(count: int) -> list[Order]:
    car = figures.place(figures.vehicle((2.4, 1.0, 0.75), (200, 30, 30)), 9.0, 1.0, 0.0, 0.3)
    return [Order(view_of(camera([[0.0, 0.0, 1.7], [0.0, 40.0 * i, 0.0]])), [car]) for i in range(count)]


def alone(town: Quads, wanted: list[Order]) -> list[bytes]:
    return [order.paint(TiledQuads(town)) for order in wanted]


def test_many_painters_paint_what_one_would(town: Quads, pool: RenderPool) -> None:
    for count in (1, 2, 3, 7):
        wanted = orders(count)
        pictures = pool.paint(wanted)
        assert pictures == alone(town, wanted)
        assert len(set(pictures)) == count


def test_dead_helpers_cost_no_picture_and_none_is_left_behind(town: Quads, pool: RenderPool) -> None:
    wanted, before = orders(5), psutil.Process().children()
    pool.paint(wanted)
    helpers = [child for child in psutil.Process().children() if child not in before]
    assert len(helpers) == 2
    os.kill(helpers[0].pid, signal.SIGKILL)
    assert pool.paint(wanted) == alone(town, wanted)
    assert pool.paint(wanted) == alone(town, wanted)
    pool.close()
    assert not any(helper.is_running() for helper in helpers)
    assert pool.paint(wanted) == alone(town, wanted)


def test_without_spare_cores_everything_is_painted_here(town: Quads) -> None:
    before = psutil.Process().children()
    pool = RenderPool(town, TiledQuads(town), workers=0)
    assert pool.paint(orders(3)) == alone(town, orders(3))
    assert psutil.Process().children() == before
