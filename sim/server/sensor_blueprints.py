"""Attributes of the sensors that can be spawned, with CARLA's names and defaults."""

from typing import Any

_BOOL, _INT, _FLOAT, _STRING = range(1, 5)
Attribute = list[Any]
# Accepted and without effect: the light simulator's cameras are ideal.
_LENS = {
    "lens_circle_multiplier": 0.0,
    "lens_circle_falloff": 5.0,
    "lens_k": -1.0,
    "lens_kcube": 0.0,
    "lens_x_size": 0.08,
    "lens_y_size": 0.08,
}
_PICTURE = {
    "chromatic_aberration_intensity": 0.0,
    "chromatic_aberration_offset": 0.0,
    "gamma": 2.2,
    "motion_blur_intensity": 0.45,
    "motion_blur_max_distortion": 0.35,
    "motion_blur_min_object_screen_size": 0.1,
    "bloom_intensity": 0.675,
    "lens_flare_intensity": 0.1,
    "shutter_speed": 200.0,
    "iso": 100.0,
    "fstop": 1.4,
    "min_fstop": 1.2,
    "exposure_compensation": 0.0,
    "exposure_min_bright": 10.0,
    "exposure_max_bright": 12.0,
    "exposure_speed_up": 3.0,
    "exposure_speed_down": 1.0,
    "calibration_constant": 16.0,
    "focal_distance": 1000.0,
    "blur_amount": 1.0,
    "blur_radius": 0.0,
    "slope": 0.88,
    "toe": 0.55,
    "shoulder": 0.26,
    "black_clip": 0.0,
    "white_clip": 0.04,
    "temp": 6500.0,
    "tint": 0.0,
}
_LIDAR = {
    "range": 10.0,
    "rotation_frequency": 10.0,
    "upper_fov": 10.0,
    "lower_fov": -30.0,
    "horizontal_fov": 360.0,
}
_LIDAR_NOISE = {
    "atmosphere_attenuation_rate": 0.004,
    "dropoff_general_rate": 0.45,
    "dropoff_intensity_limit": 0.8,
    "dropoff_zero_intensity": 0.4,
    "noise_stddev": 0.0,
}
_RADAR = {"horizontal_fov": 30.0, "vertical_fov": 30.0, "range": 100.0}
_IMU = [f"noise_{s}_{k}_{x}" for s in ("accel", "gyro") for k in ("stddev", "bias") for x in "xyz"]
_GNSS = [f"noise_{a}_{k}" for a in ("alt", "lat", "lon") for k in ("stddev", "bias")]


def sensor_attributes() -> dict[str, list[Attribute]]:
    """Type id -> attributes [name, type, value, recommended, modifiable, restricted]."""
    role, tick, seed = (
        _attr("role_name", _STRING, "front"),
        _attr("sensor_tick", _FLOAT, "0.0"),
        _attr("noise_seed", _INT, "0"),
    )
    camera = [
        role,
        _attr("fov", _FLOAT, "90.0"),
        _attr("image_size_x", _INT, "800"),
        _attr("image_size_y", _INT, "600"),
        tick,
        *_floats(_LENS),
    ]
    lidar = [
        role,
        tick,
        seed,
        _attr("channels", _INT, "32"),
        _attr("points_per_second", _INT, "56000"),
        *_floats(_LIDAR),
    ]
    out = {
        f"sensor.camera.{name}": camera
        for name in ("semantic_segmentation", "instance_segmentation", "depth")
    }
    out["sensor.camera.rgb"] = [
        *camera,
        *_floats(_PICTURE),
        _attr("enable_postprocess_effects", _BOOL, "true"),
        _attr("exposure_mode", _STRING, "histogram"),
        _attr("blade_count", _INT, "5"),
    ]
    out["sensor.lidar.ray_cast"] = [*lidar, *_floats(_LIDAR_NOISE)]
    out["sensor.lidar.ray_cast_semantic"] = lidar
    out["sensor.other.radar"] = [
        role,
        tick,
        seed,
        _attr("points_per_second", _INT, "1500"),
        *_floats(_RADAR),
    ]
    out["sensor.other.obstacle"] = [
        role,
        tick,
        *_floats({"distance": 5.0, "hit_radius": 0.5}),
        _attr("only_dynamics", _BOOL, "false"),
        _attr("debug_linetrace", _BOOL, "false"),
    ]
    out["sensor.other.imu"] = [role, tick, seed, *_floats(dict.fromkeys(_IMU, 0.0))]
    out["sensor.other.gnss"] = [role, tick, seed, *_floats(dict.fromkeys(_GNSS, 0.0))]
    out |= {f"sensor.other.{name}": [role] for name in ("collision", "lane_invasion")}
    return out


def _attr(name: str, kind: int, value: str) -> Attribute:
    return [name, kind, value, [], True, False]


def _floats(values: dict[str, float]) -> list[Attribute]:
    return [_attr(name, _FLOAT, str(value)) for name, value in values.items()]
