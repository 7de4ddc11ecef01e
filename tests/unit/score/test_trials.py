"""Trial trajectories start at the ego's speed and end where they should; what they earn."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.score.scene import freeze_log
from drive.score.trials import smooth_to, trial_field
from tests import builders


@settings(max_examples=50, deadline=None)
@given(x=st.floats(0.5, 42), y=st.floats(-10, 10), speed=st.floats(0, 14))
def test_a_trial_starts_at_the_speed_and_ends_at_its_place(x: float, y: float, speed: float) -> None:
    pose = smooth_to(np.array([[x, y]]), speed)[0]
    np.testing.assert_allclose(pose[-1, :2], [x, y], atol=1e-6)
    steps = np.diff(pose[:, 0], prepend=0.0)
    assert (steps > -1e-9).all()  # never backwards
    brake = min(0.0, 2 * (x - speed * 4) / 16, -(speed**2) / (2 * x))
    assert steps[0] <= (speed + max(0.0, 2 * (x - speed * 4) / 16) * 0.1) * 0.1 + 1e-9
    assert steps[0] >= (speed + brake * 0.1) * 0.1 - 1e-9


@given(y=st.floats(-10, 10), speed=st.floats(0, 14))
def test_mirrored_places_give_mirrored_trials(y: float, speed: float) -> None:
    one, other = smooth_to(np.array([[20.0, y], [20.0, -y]]), speed)
    np.testing.assert_allclose(one * [1, -1, -1], other, atol=1e-9)


def test_places_in_a_braking_lead_and_off_the_road_are_worth_nothing() -> None:
    scene = freeze_log(builders.lead_braking(25.0, 10.0, 4.0), 20)
    field = trial_field(scene)
    assert field.reward.shape == (len(field.x_m), len(field.y_m))
    middle = field.reward[:, len(field.y_m) // 2]
    lead_m = scene.agent_pose_ego[0, -1, 0]
    assert middle[field.x_m > lead_m].max() == 0.0
    assert middle[field.x_m < lead_m - 10].min() > 0.5
    assert field.reward[:, np.abs(field.y_m) > 4].max() == 0.0
