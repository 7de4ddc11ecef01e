"""CARLA's weather parameters as the light that the painter works with.

The weather that an episode starts with (the sun 45 degrees high, a clear sky) is how the town was painted;
all others are told apart from it. The tables are chosen by eye; CARLA's own light is that of a game engine.
"""

import math
import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from drive.contracts import F64
from drive.viz.air import Air, Look
from drive.viz.quads import Quads
from drive.viz.view import DAYLIGHT
from sim.server.actors import Sensor

DEFAULT_SUN_DEG = 45.0
_HEIGHTS_DEG = (-90.0, -12.0, -6.0, 0.0, 6.0, 15.0, 30.0, 45.0, 90.0)
_BRIGHTNESS = (0.115, 0.12, 0.2, 0.42, 0.64, 0.82, 0.95, 1.0, 1.03)
_TINT = np.array(
    [
        (0.74, 0.86, 1.18), (0.74, 0.86, 1.18), (0.84, 0.9, 1.12), (1.1, 0.95, 0.88), (1.16, 0.97, 0.8),
        (1.08, 0.99, 0.9), (1.02, 1.0, 0.98), (1.0, 1.0, 1.0), (1.0, 1.0, 1.01),
    ]
)  # fmt: skip
_ZENITH = np.array(
    [
        (7, 9, 20), (9, 12, 28), (32, 42, 84), (82, 102, 150), (102, 132, 182), (116, 156, 206),
        (124, 168, 220), DAYLIGHT.zenith, (120, 166, 222),
    ]
)  # fmt: skip
_HORIZON = np.array(
    [
        (18, 21, 34), (26, 28, 46), (116, 92, 106), (222, 158, 118), (232, 186, 146), (222, 206, 192),
        (200, 212, 226), DAYLIGHT.horizon, (184, 210, 236),
    ]
)  # fmt: skip
_HAZE = np.array(
    [
        (19, 22, 31), (22, 25, 36), (82, 77, 92), (174, 146, 126), (202, 174, 150), (200, 192, 190),
        (192, 198, 208), DAYLIGHT.haze, DAYLIGHT.haze,
    ]
)  # fmt: skip
_DARK = (1.0, 1.0, 0.85, 0.45, 0.08, 0.0, 0.0, 0.0, 0.0)
_GLOW = (0.0, 0.0, 0.35, 1.0, 0.9, 0.5, 0.0, 0.0, 0.0)
_GLOW_COLOUR = np.array([110.0, 58.0, 10.0])
_LAMPS_ON_DEG, _LAMPS_OFF_DEG = 1.0, 6.0
_CLOUD_GREY, _RAIN_GREY, _FOG_GREY, _DUST = (
    np.array([196.0, 201.0, 208.0]),
    np.array([138.0, 143.0, 150.0]),
    np.array([198.0, 202.0, 206.0]),
    np.array([186.0, 150.0, 104.0]),
)
_NIGHT_SKY_GLOW = np.array([18.0, 17.0, 18.0])  # of a town's lamps on clouds and fog
_DIRECT = 0.62
_THICKEST_M, _THICKNESS_POWER = 34.0, 1.36  # sight at a fog density of 100, and how it grows with less
_KOSCHMIEDER = 3.912  # sight is where 2 % of the contrast are left
_RAIN_SIGHT_M, _DUST_SIGHT_M = 260.0, 45.0
_FALL_1PM = 0.1 * math.log(2)  # height fog halves every 10 m / falloff
_MOST_FALLOFF = 5.0


class Weather(NamedTuple):
    """CARLA's weather parameters in the order of the wire."""

    cloudiness: float
    precipitation: float
    precipitation_deposits: float
    wind_intensity: float
    sun_azimuth_angle: float
    sun_altitude_angle: float
    fog_density: float
    fog_distance: float
    wetness: float
    fog_falloff: float
    scattering_intensity: float
    mie_scattering_scale: float
    rayleigh_scattering_scale: float
    dust_storm: float


DEFAULT = Weather(*(0.0,) * 5, DEFAULT_SUN_DEG, *(0.0,) * 8)
_UNSEEN = {
    "wind_intensity": 0.0, "scattering_intensity": 0.0, "mie_scattering_scale": 0.0,
    "rayleigh_scattering_scale": 0.0,
}  # fmt: skip


def look(air: Air, camera: Sensor, now_s: float, own: Quads | None) -> Look:
    """The air before one camera.

    Args:
        air: Of all cameras.
        camera: Its place on its vehicle makes its rain and noise its own.
        now_s: Simulation time of the episode, which moves them.
        own: Lamps of the camera's vehicle.
    """
    (x, y, z), (pitch, yaw, roll) = camera.relative
    seed = zlib.crc32(struct.pack("<7d", round(now_s * 1000), x, y, z, pitch, yaw, roll))
    return Look(air, seed, own)


def sun_is_down(row: Sequence[float]) -> bool:
    """Is it dark enough for street lamps?"""
    return Weather(*row).sun_altitude_angle < (_LAMPS_ON_DEG + _LAMPS_OFF_DEG) / 2


@lru_cache(maxsize=64)
def air_of(row: tuple[float, ...], lamps_lit: bool | None = None) -> Air | None:
    """The air of a weather; None for the one that an episode starts with. Values out of range are cut off."""
    weather = Weather(*row)
    if weather._replace(**_UNSEEN) == DEFAULT and not lamps_lit:
        return None
    clouds, rain, dust = (_share(weather[i]) for i in (0, 1, 13))
    wet = max(_share(weather.wetness), 0.9 * _share(weather.precipitation_deposits), 0.5 * rain)
    height = min(max(weather.sun_altitude_angle, -90.0), 90.0)
    brightness = float(np.interp(height, _HEIGHTS_DEG, _BRIGHTNESS))
    grey = clouds * (0.4 + 0.6 * clouds)
    overcast = (_CLOUD_GREY + (_RAIN_GREY - _CLOUD_GREY) * max(rain, 0.5 * clouds**3)) * brightness
    dark = float(np.interp(height, _HEIGHTS_DEG, _DARK))
    overcast = overcast + _NIGHT_SKY_GLOW * dark
    tint = 1 + (_table(height, _TINT) - 1) * (1 - 0.7 * grey)
    light = brightness * tint * (1 - 0.24 * grey) * (1 - 0.16 * rain) * (1 - 0.3 * dust)
    haze = _mix(_table(height, _HAZE), overcast, 0.85 * grey)
    fog = _FOG_GREY * (0.9 * brightness) * (1 - 0.2 * rain) * (1 + (tint - 1) * 0.6) + _NIGHT_SKY_GLOW * dark
    fog_1pm = _extinction(weather) + _KOSCHMIEDER * (rain**1.5 / _RAIN_SIGHT_M + dust / _DUST_SIGHT_M)
    cloud = _mix(_table(height, _HORIZON), overcast, 0.4 + 0.6 * grey)
    glow = _GLOW_COLOUR * float(np.interp(height, _HEIGHTS_DEG, _GLOW)) * (1 - grey)
    falloff = min(max(weather.fog_falloff, 0.0), _MOST_FALLOFF)
    lamps = float(np.clip((_LAMPS_OFF_DEG - height) / (_LAMPS_OFF_DEG - _LAMPS_ON_DEG), 0, 1))
    return Air(
        sun_world=_sun(weather.sun_azimuth_angle, height),
        light=_rgb(light * (1 + 0.25 * dark * (lamps_lit is not False))),
        direct=_DIRECT * (1 - grey) * (1 - rain) * (1 - dark) * _turned(weather),
        zenith=_rgb(_mix(_mix(_table(height, _ZENITH), overcast, grey), _DUST * brightness, dust)),
        horizon=_rgb(_mix(_mix(_table(height, _HORIZON), overcast, 0.9 * grey), _DUST * brightness, dust)),
        haze=_rgb(_mix(haze, _DUST * brightness, dust)),
        fog=_rgb(_mix(fog, _DUST * brightness, dust)),
        cloud=_rgb(_mix(cloud, _DUST * brightness, dust)),
        clouds=clouds,
        glow=_rgb(glow),
        fog_1pm=fog_1pm,
        fog_from_m=min(max(weather.fog_distance, 0.0), 1000.0),
        fog_fall_1pm=_FALL_1PM * falloff,
        dark=dark,
        lamps=lamps if lamps_lit is None else float(lamps_lit),
        rain=rain,
        wet=wet,
    )


def _share(percent: float) -> float:
    return min(max(percent, 0.0), 100.0) / 100


def _table(height_deg: float, rows: F64) -> F64:
    return np.array([np.interp(height_deg, _HEIGHTS_DEG, column) for column in rows.T])


def _mix(one: F64, other: F64, share: float) -> F64:
    mixed: F64 = one + (other - one) * share
    return mixed


def _rgb(colour: F64) -> tuple[float, float, float]:
    red, green, blue = colour.tolist()
    return red, green, blue


def _extinction(weather: Weather) -> float:
    """Of fog [1/m]."""
    density = _share(weather.fog_density)
    return float(_KOSCHMIEDER / _THICKEST_M * density**_THICKNESS_POWER)


def _sun(azimuth_deg: float, height_deg: float) -> tuple[float, float, float]:
    """Unit vector to the sun; CARLA's azimuth turns to the right, y is left here."""
    azimuth, height = math.radians(azimuth_deg % 360), math.radians(height_deg)
    return (
        math.cos(height) * math.cos(azimuth),
        -math.cos(height) * math.sin(azimuth),
        math.sin(height),
    )


def _turned(weather: Weather) -> float:
    """How far the sun is from its default place, 0..1: the town's own colours hold the default light."""
    sun, default = _sun(weather.sun_azimuth_angle, weather.sun_altitude_angle), _sun(0.0, DEFAULT_SUN_DEG)
    return min(1.0, 2.0 * math.dist(sun, default))
