"""Box labels of datasets -> AgentKind."""

from typing import Any

import numpy as np

from drive.contracts import I32, AgentKind

_CAR, _TRUCK, _CYCLIST, _PERSON, _THING = AgentKind
# In the order of py123d's NuScenesBoxDetectionLabel, so that reading nuScenes does not import py123d.
NUSCENES = (
    [_CAR, _TRUCK, _TRUCK, _TRUCK, _TRUCK, _TRUCK, _CAR, _TRUCK]  # car .. trailer
    + [_CYCLIST] * 2
    + [_PERSON] * 7
    + [_THING] * 6  # cone, barrier, pushable, debris, bicycle rack, animal
)
DEFAULT = {"VEHICLE": _CAR, "TRAIN": _TRUCK, "TWO_WHEELER": _CYCLIST, "PERSON": _PERSON}


def agent_kinds(label_class: str, labels: Any) -> I32:
    """Map labels int (N,) of py123d's label class (dotted name) to int32 (N,) AgentKind values."""
    if label_class.rsplit(".", 1)[-1] == "NuScenesBoxDetectionLabel":
        table = NUSCENES
    else:
        from py123d.datatypes.detections import BoxDetectionsSE3Metadata

        label_enum = BoxDetectionsSE3Metadata.from_dict({"box_detection_label_class": label_class})
        members = list(label_enum.box_detection_label_class)
        table = [_THING] * (max(int(m) for m in members) + 1)
        for member in members:
            table[int(member)] = DEFAULT.get(member.to_default().name, _THING)
    return np.array(table, np.int32)[np.asarray(labels, np.int64)]
