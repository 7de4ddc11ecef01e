"""Every type that crosses a folder boundary. numpy only; imports nothing of ours."""

from drive.contracts.arrays import F32, F64, I32, I64, U8, Bool, expect
from drive.contracts.command import DrivingCommand, Lateral, Longitudinal
from drive.contracts.engine import BadCase, Manifest, ManifestEntry, ModelVersion
from drive.contracts.errors import UserError
from drive.contracts.log import DriveLog, Event, LogMeta, PlanSteps
from drive.contracts.observation import (
    FRAME_GAP_RANGE_S,
    CameraModel,
    Observation,
    RouteHint,
    Turn,
    earlier_frame,
)
from drive.contracts.plan import DT_S, NOBODY, STEPS, Plan, Policy, Trajectory
from drive.contracts.scene import EGO_MKZ, EGO_NUSCENES, AgentKind, AgentTracks, EgoSize, EgoTrack, RoadPatch
from drive.contracts.score import GATES, WEIGHTED, CaseScore, EvalResult

__all__ = [
    "DT_S",
    "EGO_MKZ",
    "EGO_NUSCENES",
    "F32",
    "F64",
    "FRAME_GAP_RANGE_S",
    "GATES",
    "I32",
    "I64",
    "NOBODY",
    "STEPS",
    "U8",
    "WEIGHTED",
    "AgentKind",
    "AgentTracks",
    "BadCase",
    "Bool",
    "CameraModel",
    "CaseScore",
    "DriveLog",
    "DrivingCommand",
    "EgoSize",
    "EgoTrack",
    "EvalResult",
    "Event",
    "Lateral",
    "LogMeta",
    "Longitudinal",
    "Manifest",
    "ManifestEntry",
    "ModelVersion",
    "Observation",
    "Plan",
    "PlanSteps",
    "Policy",
    "RoadPatch",
    "RouteHint",
    "Trajectory",
    "Turn",
    "UserError",
    "earlier_frame",
    "expect",
]
