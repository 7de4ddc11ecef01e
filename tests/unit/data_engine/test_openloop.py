"""What of a demonstration is new to a policy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_engine.openloop import done_otherwise
from data_engine.store import collect
from drive.bench.floors import ConstantVelocity
from drive.logs import write_drive
from tests import builders


def test_only_what_would_be_done_otherwise_is_new(tmp_path: Path) -> None:
    straight = builders.cruise()
    label = straight.plans.label_ego.copy()
    label[10:20, :, 1] = np.linspace(0, 5, label.shape[1])  # around something
    write_drive(tmp_path, replace(straight, plans=replace(straight.plans, label_ego=label)))
    found = done_otherwise(ConstantVelocity(), collect([tmp_path]), 0)
    too_early = {0, 1, 2}  # without a past it stands or is slow
    assert set(found) == {("cruise", i) for i in too_early | set(range(10, 20))}
    assert found["cruise", 12] == pytest.approx(2.5, abs=0.1)  # 0 to 5 m aside
