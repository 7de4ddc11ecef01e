"""What is on the ground around the ego: road, oncoming lanes, road users and where they go."""

import numpy as np

from drive.contracts import F64, U8, Bool, DriveLog
from drive.geometry.boxes import corners
from drive.geometry.se2 import to_local

FROM_X_M, TO_X_M, HALF_Y_M = 0.0, 48.0, 16.0
CELL_M = 1.0
ROWS, COLUMNS = round((TO_X_M - FROM_X_M) / CELL_M), round(2 * HALF_Y_M / CELL_M)  # along x, along y
OCCUPIED_S = (0.0, 1.0, 2.0, 3.0)
ROAD, ONCOMING, OCCUPIED = 0, 1, 2  # channels; OCCUPIED is the first of len(OCCUPIED_S)
CHANNELS = OCCUPIED + len(OCCUPIED_S)
_ROAD_KNOWN, _FUTURE_KNOWN = 6, 7  # bits
_FINE = 4  # pixels a cell while drawing
_AGAINST = -0.5  # cosine between a lane and the ego's heading
_ROAD_SHARE, _BODY_SHARE = 0.5, 0.25
_REACH_M = 5.0
_LATE_S = 0.3


def ground_of(log: DriveLog, plan_index: int) -> U8:
    """Ground truth around the ego at a planning step: uint8 (ROWS, COLUMNS).

    Row i, column j is the cell from (FROM_X_M + i, -HALF_Y_M + j) m on in the ego frame.
    Bit 0: inside a lane; 1: only inside lanes that lead against the ego's heading; 2 to 5: a road user
    at 0, 1, 2 and 3 s; 6: the road is known; 7: so are the road users of all these times.
    """
    step = int(log.plans.step[plan_index])
    origin = log.ego.pose_world[step]
    bits = np.zeros((ROWS, COLUMNS), np.uint8)
    if log.road is not None:
        mine, against = _lanes(log, origin)
        bits[mine | against] |= 1 << ROAD
        bits[against & ~mine] |= 1 << ONCOMING
        bits |= 1 << _ROAD_KNOWN
    t_s = (log.ego.t_us - log.ego.t_us[step]) * 1e-6
    if t_s[-1] >= OCCUPIED_S[-1] - _LATE_S:
        bits |= 1 << _FUTURE_KNOWN
    for k, at_s in enumerate(OCCUPIED_S):
        at = int(np.abs(t_s - at_s).argmin())
        if abs(t_s[at] - at_s) <= _LATE_S:
            bits[_occupied(log, at, origin)] |= 1 << (OCCUPIED + k)
    return bits


def unpack(bits: U8) -> tuple[U8, Bool]:
    """Bits (B, ROWS, COLUMNS) -> uint8 (B, CHANNELS, ROWS, COLUMNS) of 0 and 1, and which channels are known.

    Known is bool (B, CHANNELS): road and oncoming lanes need a map, later road users a drive that goes on.
    """
    planes: U8 = (bits[:, None] >> np.arange(CHANNELS, dtype=np.uint8)[:, None, None]) & np.uint8(1)
    first = bits[:, 0, 0]
    known = np.ones((len(bits), CHANNELS), bool)
    known[:, :OCCUPIED] = ((first >> _ROAD_KNOWN) & 1)[:, None]
    known[:, OCCUPIED + 1 :] = ((first >> _FUTURE_KNOWN) & 1)[:, None]
    return planes, known


def _lanes(log: DriveLog, origin: F64) -> tuple[Bool, Bool]:
    """Cells in lanes that lead the ego's way or across it, and in lanes that lead against it."""
    import cv2

    assert log.road is not None
    mine, against = (np.zeros((ROWS * _FINE, COLUMNS * _FINE), np.uint8) for _ in range(2))
    centre = to_local(log.road.centre_world, origin)
    low, high = centre.min(1), centre.max(1)
    near = (high[:, 0] > FROM_X_M - _REACH_M) & (low[:, 0] < TO_X_M + _REACH_M)
    near &= (high[:, 1] > -HALF_Y_M - _REACH_M) & (low[:, 1] < HALF_Y_M + _REACH_M)
    for lane in np.flatnonzero(near):
        ahead = np.diff(centre[lane], axis=0)
        facing = ahead[:, 0] < _AGAINST * np.hypot(ahead[:, 0], ahead[:, 1])
        pixels = np.rint(_pixels(centre[lane])).astype(np.int32)
        width = max(1, round(float(log.road.width_m[lane]) / CELL_M * _FINE))
        for image, use in ((mine, ~facing), (against, facing)):
            for i in np.flatnonzero(use):
                cv2.line(image, pixels[i].tolist(), pixels[i + 1].tolist(), 255, width)
    return _covered(mine, _ROAD_SHARE), _covered(against, _ROAD_SHARE)


def _occupied(log: DriveLog, at: int, origin: F64) -> Bool:
    import cv2

    image = np.zeros((ROWS * _FINE, COLUMNS * _FINE), np.uint8)
    seen = log.agents.valid[:, at]
    pose = to_local(log.agents.pose_world[seen, at], origin)
    boxes = corners(pose, log.agents.size_m[seen].astype(np.float64))
    shift = 4
    for box in _pixels(boxes):
        cv2.fillConvexPoly(image, np.rint(box * (1 << shift)).astype(np.int32), 255, shift=shift)
    return _covered(image, _BODY_SHARE)


def _pixels(points_ego: F64) -> F64:
    """(..., 2) metres -> (column, row) of pixel centres, as OpenCV counts them."""
    x, y = points_ego[..., 0], points_ego[..., 1]
    row, column = (x - FROM_X_M) / CELL_M * _FINE - 0.5, (y + HALF_Y_M) / CELL_M * _FINE - 0.5
    return np.asarray(np.clip(np.stack([column, row], -1), -1e4, 1e4))


def _covered(image: U8, share: float) -> Bool:
    filled = image.reshape(ROWS, _FINE, COLUMNS, _FINE).mean((1, 3))
    return np.asarray(filled >= 255 * share)
