"""Collects what happens during a drive and turns it into a drive.contracts.DriveLog."""

import sys
from dataclasses import dataclass, field
from itertools import pairwise

import carla
import numpy as np

from drive.contracts import (
    EGO_MKZ,
    F32,
    F64,
    STEPS,
    U8,
    AgentTracks,
    DriveLog,
    EgoTrack,
    Event,
    LogMeta,
    Plan,
    PlanSteps,
    RoadPatch,
    RouteHint,
)
from sim.expert import ExpertPlan
from sim.frames import CAMERA, front_camera, waypoint_pose
from sim.lane_graph import section_ends
from sim.routes import Route
from sim.situation import Agents, EgoState

LANE_POINTS = 12
LANE_STEP_M = 2.0
PATCH_REACH_M = 45.0
OUTER_LANE = 1.5  # a lane outside a bend is at most this much longer than its road
NO_PLAN = np.full((STEPS, 3), np.nan, np.float32)


@dataclass
class Recorder:
    """Rows of a drive; `log` freezes them."""

    times_s: list[float] = field(default_factory=list)
    egos: list[EgoState] = field(default_factory=list)
    agents: list[Agents] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    images: list[U8] = field(default_factory=list)
    hints: list[RouteHint] = field(default_factory=list)
    labels: list[ExpertPlan] = field(default_factory=list)
    plans: list[tuple[F32, tuple[int, int], bool]] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)

    def add_state(self, t_s: float, ego: EgoState, agents: Agents) -> None:
        """Record one 10 Hz row."""
        self.times_s.append(t_s)
        self.egos.append(ego)
        self.agents.append(agents)

    def add_plan(self, image: U8 | None, hint: RouteHint, label: ExpertPlan, plan: Plan | None) -> None:
        """Record one planning step at the newest 10 Hz row; without a plan the expert's own one drives."""
        self.steps.append(len(self.times_s) - 1)
        if image is not None:
            self.images.append(image)
        self.hints.append(hint)
        self.labels.append(label)
        if plan is None:
            chosen, command, split = label.pose_ego, (int(label.command[0]), int(label.command[1])), False
            sure = np.nan
        else:
            chosen = _fixed_length(plan.best.pose_ego)
            split = "split_brain" in plan.flags
            command = (
                (int(plan.command.lateral), int(plan.command.longitudinal)) if plan.command else (-1, -1)
            )
            sure = plan.command.confidence if plan.command else np.nan
        self.plans.append((chosen, command, split))
        self.confidence.append(float(sure))

    def log(self, meta: LogMeta, route: Route, road: RoadPatch, events: tuple[Event, ...]) -> DriveLog:
        """The finished drive."""
        return DriveLog(
            meta=meta,
            ego=self._ego(),
            agents=self._tracks(),
            ego_size=EGO_MKZ,
            plans=self._plan_steps(),
            route_world=np.ascontiguousarray(route.pose_world[:, :2]),
            road=road,
            events=events,
        )

    def _ego(self) -> EgoTrack:
        return EgoTrack(
            t_us=np.array([round(t * 1e6) for t in self.times_s], np.int64),
            pose_world=np.array([e.pose_world for e in self.egos], np.float64).reshape(-1, 3),
            speed_mps=np.array([e.speed_mps for e in self.egos], np.float32),
            accel_mps2=np.array([e.accel_mps2 for e in self.egos], np.float32),
            yaw_rate_radps=np.array([e.yaw_rate_radps for e in self.egos], np.float32),
        )

    def _tracks(self) -> AgentTracks:
        known: dict[int, tuple[int, F32]] = {}
        for agents in self.agents:
            for i, agent_id in enumerate(agents.ids.tolist()):
                known.setdefault(agent_id, (int(agents.kind[i]), agents.size_m[i]))
        ids = sorted(known)
        column = {agent_id: n for n, agent_id in enumerate(ids)}
        n, t = len(ids), len(self.agents)
        pose, speed = np.zeros((n, t, 3)), np.zeros((n, t), np.float32)
        valid = np.zeros((n, t), np.bool_)
        for k, agents in enumerate(self.agents):
            for i, agent_id in enumerate(agents.ids.tolist()):
                row = column[agent_id]
                pose[row, k], speed[row, k], valid[row, k] = agents.pose_world[i], agents.speed_mps[i], True
        return AgentTracks(
            ids=np.arange(n, dtype=np.int32),
            kind=np.array([known[i][0] for i in ids], np.int32),
            size_m=np.array([known[i][1] for i in ids], np.float32).reshape(-1, 2),
            pose_world=pose,
            speed_mps=speed,
            valid=valid,
        )

    def _plan_steps(self) -> PlanSteps:
        d = len(self.steps)
        images = {CAMERA: np.stack(self.images)} if self.images else {}
        return PlanSteps(
            step=np.array(self.steps, np.int32),
            images=images,
            cameras={CAMERA: front_camera()} if images else {},
            turn=np.array([int(h.turn) for h in self.hints], np.int32),
            target_points_ego=np.array([h.target_points_ego for h in self.hints], np.float32).reshape(
                d, 2, 2
            ),
            speed_limit_mps=np.array([h.speed_limit_mps for h in self.hints], np.float32),
            provenance="navigation",
            label_ego=np.array([e.pose_ego for e in self.labels], np.float32).reshape(d, STEPS, 3),
            plan_ego=np.array([p[0] for p in self.plans], np.float32).reshape(d, STEPS, 3),
            command=np.array([p[1] for p in self.plans], np.int32).reshape(d, 2),
            label_command=np.array([e.command for e in self.labels], np.int32).reshape(d, 2),
            aux=np.array([e.aux for e in self.labels], np.float32).reshape(d, 3),
            split_brain=np.array([p[2] for p in self.plans], np.bool_),
            confidence=np.array(self.confidence, np.float32),
        )


def _fixed_length(pose_ego: F32) -> F32:
    """Plans of any other length than 40 are stored as "none recorded"."""
    return pose_ego if pose_ego.shape == (STEPS, 3) else NO_PLAN


def road_patch(carla_map: carla.Map, route: Route, stop_lines_world: F64) -> RoadPatch:
    """Driving lanes within 45 m of the route, cut into pieces of about 22 m with 12 points each."""
    route_xy = route.pose_world[::5, :2]
    lengths = {road: sections[-1][1] for road, sections in section_ends(carla_map.to_opendrive()).items()}
    centres: list[F64] = []
    widths: list[float] = []
    inside: list[bool] = []
    for first, _ in sorted(carla_map.get_topology(), key=lambda pair: pair[0].id):
        if first.lane_type != carla.LaneType.Driving:
            continue
        reach = PATCH_REACH_M + OUTER_LANE * lengths[first.road_id] + 20.0
        if np.hypot(*(route_xy - waypoint_pose(first)[:2]).T).min() > reach:
            continue
        for piece, width in _lane_pieces(first, lengths[first.road_id]):
            gap = np.hypot(*(route_xy[:, None] - piece[None, :]).transpose(2, 0, 1))
            if gap.min() < PATCH_REACH_M:
                centres.append(piece)
                widths.append(width)
                inside.append(first.is_junction)
    return RoadPatch(
        centre_world=np.array(centres, np.float64).reshape(-1, LANE_POINTS, 2),
        width_m=np.array(widths, np.float32),
        in_junction=np.array(inside, np.bool_),
        stop_line_world=stop_lines_world,
    )


def _lane_pieces(first: carla.Waypoint, road_m: float) -> list[tuple[F64, float]]:
    """One lane section's centre line in pieces of LANE_POINTS points."""
    points = [waypoint_pose(w)[:2] for w in _until_road_end(first, road_m)]
    line = np.array(points)
    if len(line) < 2:
        return []
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    if lengths[-1] < 0.5:
        return []
    cuts = np.linspace(0, lengths[-1], max(1, round(lengths[-1] / (LANE_STEP_M * (LANE_POINTS - 1)))) + 1)
    pieces = []
    for low, high in pairwise(cuts):
        at = np.linspace(low, high, LANE_POINTS)
        piece = np.stack([np.interp(at, lengths, line[:, 0]), np.interp(at, lengths, line[:, 1])], -1)
        pieces.append((piece, float(first.lane_width)))
    return pieces


def _until_road_end(first: carla.Waypoint, road_m: float) -> list[carla.Waypoint]:
    """Waypoints every 2 m and at the end, as `next_until_lane_end` gives them.

    That function crashes the process on lanes shorter than the step and on lanes that lead nowhere.
    """
    line = [first]
    while len(line) < road_m / LANE_STEP_M + 2:
        onward = line[-1].next(LANE_STEP_M)
        if len(onward) != 1 or onward[0].road_id != first.road_id:
            break
        line.append(onward[0])
    last = line[-1]
    left = (road_m - last.s if first.lane_id < 0 else last.s) - sys.float_info.epsilon
    return line + (last.next(left)[:1] if left > 0 else [])


def outcome(ended: str | None, events: tuple[Event, ...]) -> str:
    """LogMeta.outcome of a drive: the worst thing that happened."""
    kinds = {e.kind for e in events}
    if any(kind.startswith("collisions_") for kind in kinds):
        return "collision"
    if "outside_route_lanes" in kinds:
        return "off_road"
    return ended or "timeout"
