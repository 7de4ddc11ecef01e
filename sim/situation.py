"""Ground truth at one tick, in numpy: what the expert and the criteria see and policies do not."""

from dataclasses import dataclass

from drive.contracts import F32, F64, I32
from sim.routes import Route

RED, YELLOW, GREEN, NO_LIGHT = 0, 1, 2, 3


@dataclass(frozen=True)
class EgoState:
    """Ego motion: rear-axle pose in the world, forward speed, acceleration and yaw rate."""

    pose_world: F64
    speed_mps: float
    accel_mps2: float
    yaw_rate_radps: float


@dataclass(frozen=True)
class Agents:
    """N other road users at one tick.

    Attributes:
        ids: int32 (N,).
        kind: int32 (N,), AgentKind.
        size_m: float32 (N, 2), length and width.
        pose_world: float64 (N, 3), box centre.
        speed_mps: float64 (N,), along the heading for vehicles, absolute for walkers.
        paths: Per agent the lane paths it may follow, each float64 (P, 3) of poses 2 m apart that starts at
            the agent; an empty tuple means straight on.
    """

    ids: I32
    kind: I32
    size_m: F32
    pose_world: F64
    speed_mps: F64
    paths: tuple[tuple[F64, ...], ...] = ()


@dataclass(frozen=True)
class StopLine:
    """A signalled stop line on the route at arc length s_m, and the light that rules it."""

    s_m: float
    light_id: int


@dataclass(frozen=True)
class Situation:
    """Everything around the ego at one tick.

    Attributes:
        t_s: Time since the start of the drive.
        ego: Ego motion.
        s_m, lateral_m: Ego's rear axle on the route: arc length, offset (left positive).
        route: The route.
        agents: Other road users.
        stops: Signalled stop lines on the route, ascending.
        lights: State per stop line: RED, YELLOW, GREEN or NO_LIGHT.
        holds: Arc lengths that the expert's front bumper must not pass now (stop signs, waiting for a gap).
        emergency: Ids of agents that are emergency vehicles.
        choosy: The expert weighs its plan against a dash and a stop.
        eager: The expert has stood: it starts briskly as soon as nobody has to brake for it.
        bold: The expert has waited long: it goes as soon as the others can still brake for it.
        brisk: It accelerates harder than usual.
    """

    t_s: float
    ego: EgoState
    s_m: float
    lateral_m: float
    route: Route
    agents: Agents
    stops: tuple[StopLine, ...]
    lights: tuple[int, ...]
    holds: tuple[float, ...] = ()
    emergency: frozenset[int] = frozenset()
    choosy: bool = False
    eager: bool = False
    bold: bool = False
    brisk: bool = False
