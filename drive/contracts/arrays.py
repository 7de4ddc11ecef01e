"""Array aliases, the one array check, and the frames every docstring refers to.

Frames (right-handed, metres, radians; yaw counter-clockwise from +x):
  world   fixed per map; x east, y north, z up
  ego     rear axle on the ground; x forward, y left, z up (ISO 8855)
  camera  optical centre; x right, y down, z forward
`pose_world` is a value in the world frame; transforms read a_from_b, so
`camera_from_ego @ ego_from_world` cancels by eye. Scalars carry units:
`_m _s _us _mps _mps2 _rad _radps _1pm`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]


def expect(name: str, value: NDArray[Any], shape: tuple[int | None, ...], dtype: type) -> None:
    """Raise ValueError unless `value` has this dtype and shape (None = any size)."""
    ok = value.ndim == len(shape)
    ok = ok and all(s is None or s == n for s, n in zip(shape, value.shape, strict=True))
    if not ok or value.dtype != np.dtype(dtype):
        raise ValueError(f"{name}: expected {np.dtype(dtype)}{shape}, got {value.dtype}{value.shape}")
