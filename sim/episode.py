"""Drive one route: tick, plan, control, watch, record."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from drive.contracts import (
    F64,
    U8,
    DriveLog,
    Event,
    LogMeta,
    Plan,
    Policy,
    RouteHint,
)
from sim.control import Tracker
from sim.criteria import Criteria
from sim.expert import plan_expert
from sim.frames import CAMERA, front_camera
from sim.observe import Shots, chosen_poses, history_ego, observation
from sim.recording import Recorder, outcome, road_patch
from sim.routes import RouteSpec
from sim.scenarios.director import Staged
from sim.session import TICK_S, Address, Session
from sim.situation import Situation
from sim.staging import Staging, criteria_of, stage_route

PLAN_EVERY = 4
LOG_EVERY = 2
SETTLE_S = 0.05
TAKE_OVER_M = 2.2
TAKE_OVER_STUCK_S = 8.0
TAKE_OVER_PLANS = 15
CLEAR_TO_DISPLACE_M = 12.0


@dataclass(frozen=True)
class DriveOptions:
    """How a route is driven.

    Attributes:
        record: Keep a DriveLog with camera images.
        perturb: Share of planning steps after which the ego is displaced (training data).
        dagger: The expert takes over for 3 s when the policy is 2.2 m off the route or stuck (training data).
        wall_limit_s: Wall-clock limit of a drive.
    """

    record: bool = True
    perturb: float = 0.0
    dagger: bool = False
    wall_limit_s: float = 900.0


@dataclass(frozen=True)
class DriveReport:
    """What one drive came to; `log` is None unless it was recorded."""

    spec: RouteSpec
    ended: str
    events: tuple[Event, ...]
    completion: float
    outside_m: float
    driven_m: float
    route_length_m: float
    game_s: float
    wall_s: float
    plans: int
    split_brain: int
    unusable_plans: int
    late_images: int
    plan_ms: tuple[float, ...] = ()
    log: DriveLog | None = None
    scenarios: tuple[Staged, ...] = ()
    flags: Mapping[str, int] = field(default_factory=dict)  # of the plans, how often


@dataclass
class _Drive:
    """Mutable state of the loop."""

    options: DriveOptions
    policy: Policy | None
    session: Session
    tracker: Tracker
    criteria: Criteria
    recorder: Recorder
    rng: np.random.Generator
    staging: Staging | None
    trail_t: list[float] = field(default_factory=list)
    trail: list[F64] = field(default_factory=list)
    shots: Shots = field(default_factory=Shots)
    way_ahead_m: float = 0.0
    plans: int = 0
    split_brain: int = 0
    expert_plans_left: int = 0
    stuck_s: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    marks: list[Event] = field(default_factory=list)
    flags: Counter[str] = field(default_factory=Counter)


def drive_route(
    address: Address,
    spec: RouteSpec,
    policy: Policy | None,
    options: DriveOptions,
    driver: str,
    simulator: str,
) -> DriveReport:
    """Drive one route on a server.

    Args:
        address: Server.
        spec: Route.
        policy: Driver; None is the privileged expert.
        options: Recording and perturbation.
        driver: Name of the driver for the log.
        simulator: "light simulator" or "CARLA".

    Returns:
        The report, with the log if recorded.

    Raises:
        RuntimeError, TimeoutError: The simulator failed (infrastructure, not the policy).
    """
    began = time.monotonic()
    camera = options.record or (policy is not None and policy.needs_images)
    with Session(address, spec, camera) as session:
        staging = stage_route(session)
        criteria = criteria_of(session, staging)
        drive = _Drive(
            options,
            policy,
            session,
            Tracker(session.gains()),
            criteria,
            Recorder(),
            np.random.default_rng([spec.seed, 5]),
            staging,
        )
        try:
            ended = _loop(drive, began)
        finally:
            if staging is not None and not address.own:
                staging.director.close()
        time.sleep(SETTLE_S)  # collision events travel on their own connection
        events = criteria.finish(session.contacts(), session.first_frame)
        log = _log(drive, spec, driver, simulator, ended, events) if options.record else None
        return _report(drive, ended, events, time.monotonic() - began, log)


def _report(
    drive: _Drive, ended: str, events: tuple[Event, ...], wall_s: float, log: DriveLog | None
) -> DriveReport:
    session, criteria, staging = drive.session, drive.criteria, drive.staging
    return DriveReport(
        spec=session.spec,
        ended=ended,
        events=events,
        completion=criteria.completion,
        outside_m=criteria.outside_m,
        driven_m=criteria.driven_m,
        route_length_m=session.route.length_m,
        game_s=session.t_s,
        wall_s=wall_s,
        plans=drive.plans,
        split_brain=drive.split_brain,
        unusable_plans=drive.tracker.unusable_plans,
        late_images=session.camera.late if session.camera else 0,
        plan_ms=tuple(drive.latencies_ms),
        log=log,
        scenarios=staging.report() if staging else (),
        flags=dict(drive.flags),
    )


def _loop(drive: _Drive, began: float) -> str:
    session, staging, tick = drive.session, drive.staging, 0
    while True:
        planning = tick % PLAN_EVERY == 0
        scene = session.scene(predict=planning)
        drive.trail_t.append(scene.t_s)
        drive.trail.append(scene.ego.pose_world)
        if tick % LOG_EVERY == 0:
            drive.recorder.add_state(scene.t_s, scene.ego, scene.agents)
        if planning:
            _plan(drive, scene)
        if staging is not None:
            staging.before_tick(session, scene, drive.criteria)
        oncoming_ok = staging is not None and staging.director.oncoming_ok
        ended = drive.criteria.tick(scene, drive.way_ahead_m, oncoming_ok)
        if ended is not None:
            return ended
        if time.monotonic() - began > drive.options.wall_limit_s:
            raise TimeoutError(
                f"{session.spec.route_id}: no end after {drive.options.wall_limit_s:.0f} s of wall time"
            )
        pedals = drive.tracker.control(scene.ego.pose_world, scene.ego.speed_mps, scene.t_s, TICK_S)
        if staging is not None:
            pedals = staging.director.disturb(pedals)
        session.control(pedals.throttle, pedals.brake, pedals.steer)
        session.walk(scene)
        if planning:
            _perturb(drive, scene)
        session.tick()
        tick += 1


def _plan(drive: _Drive, scene: Situation) -> None:
    """One planning step: label, ask the policy, hand the plan to the tracker, record."""
    label = plan_expert(scene if drive.staging is None else drive.staging.navigator.view(scene))
    drive.way_ahead_m = float(np.hypot(*label.pose_ego[-1, :2]))
    hint = scene.route.hint(scene.ego.pose_world, scene.s_m)
    camera = drive.session.camera
    image = camera.at(drive.session.frame) if camera else None
    plan = _ask(drive, scene, hint, image)
    steers = label.pose_ego if plan is None else chosen_poses(plan)
    if plan is not None and drive.options.dagger and _expert_takes_over(drive, scene):
        steers = label.pose_ego
    drive.tracker.set_plan(steers, scene.ego.pose_world, scene.t_s)
    drive.plans += 1
    drive.recorder.add_plan(image if drive.options.record else None, hint, label, plan)


def _ask(drive: _Drive, scene: Situation, hint: RouteHint, image: U8 | None) -> Plan | None:
    if drive.policy is None:
        return None
    images = {CAMERA: image} if image is not None and drive.policy.needs_images else {}
    past = history_ego(drive.trail_t, drive.trail, scene.t_s, scene.ego)
    seen = drive.shots.add(scene.t_s, scene.ego.pose_world, images)
    asked = observation(scene.t_s, scene.ego, hint, past, seen, {CAMERA: front_camera()})
    start = time.perf_counter()
    plan = drive.policy.plan([asked], drive.session.spec.seed * 100_003 + drive.plans)[0]
    drive.latencies_ms.append(1e3 * (time.perf_counter() - start))
    drive.split_brain += "split_brain" in plan.flags
    drive.flags.update(plan.flags)
    return plan


def _expert_takes_over(drive: _Drive, scene: Situation) -> bool:
    free = drive.way_ahead_m > 3.0 and abs(scene.ego.speed_mps) < 0.2
    drive.stuck_s = drive.stuck_s + PLAN_EVERY * TICK_S if free else 0.0
    if abs(scene.lateral_m) > TAKE_OVER_M or drive.stuck_s > TAKE_OVER_STUCK_S:
        drive.expert_plans_left, drive.stuck_s = TAKE_OVER_PLANS, 0.0
        drive.marks.append(Event("expert_takes_over", round(scene.t_s * 1e6)))
    drive.expert_plans_left = max(0, drive.expert_plans_left - 1)
    return drive.expert_plans_left > 0


def _perturb(drive: _Drive, scene: Situation) -> None:
    """Displace the ego now and then, so that labels show how to come back."""
    rng = drive.rng
    if drive.options.perturb <= 0 or rng.random() >= drive.options.perturb or scene.ego.speed_mps < 0.5:
        return
    near = scene.agents.pose_world[:, :2] - scene.ego.pose_world[:2]
    if (np.hypot(near[:, 0], near[:, 1]) < CLEAR_TO_DISPLACE_M).any():
        return
    lateral = float(np.clip(rng.normal(0, 0.6), -1.4, 1.4))
    yaw = float(np.clip(rng.normal(0, 0.08), -0.25, 0.25))
    faster = float(rng.uniform(0.5, 1.15)) if rng.random() < 0.5 else 1.0
    pose = scene.route.at(scene.s_m)
    pose += [-lateral * np.sin(pose[2]), lateral * np.cos(pose[2]), yaw]
    drive.session.place(pose, scene.ego.speed_mps * faster)
    drive.marks.append(Event("perturbation", round(scene.t_s * 1e6) + round(TICK_S * 1e6)))
    drive.trail_t.clear()
    drive.trail.clear()


def _log(
    drive: _Drive, spec: RouteSpec, driver: str, simulator: str, ended: str, events: tuple[Event, ...]
) -> DriveLog:
    session = drive.session
    meta = LogMeta(
        log_id=f"{spec.route_id}__{driver}".replace("/", "-").replace(":", "-"),
        dataset="nightdrive",
        town=spec.town,
        route=spec.route_id,
        seed=spec.seed,
        driver=driver,
        simulator="CARLA" if simulator == "CARLA" else "light simulator",
        image_kind="camera" if simulator == "CARLA" else "rendered",
        outcome=outcome(ended, events),
    )
    road = road_patch(session.map, session.route, session.lights.lines_world)
    together = tuple(sorted((*events, *drive.marks), key=lambda e: (e.t_us, e.kind)))
    return drive.recorder.log(meta, session.route, road, together)
