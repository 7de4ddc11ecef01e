"""A planner under a slower VLA: the latest command, its age, and the planner's own command."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drive.contracts import Longitudinal, Observation, UserError
from drive.model.folder import save_model
from drive.model.policy import PlannerPolicy
from drive.model.vla import vla_factory
from drive.model.vla.config import PaceConfig
from drive.model.vla.folder import check_vla, load_vla, save_vla
from drive.model.vla.policy import OWN_COMMAND, VlaPolicy
from drive.model.vla.speaker import Speaker
from tests import builders
from tests.conformance import test_policies as conformance
from tests.unit.model.networks import tiny_network
from tests.unit.model.vla.speakers import taught_speaker, tiny_speaker

STEP_US = 200_000


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    """Says keep/stop, 2 m/s, whatever it sees."""
    return taught_speaker()


def seen(t_us: int, speed: float = 6.0) -> Observation:
    return replace(builders.observation(speed, image_size=64), t_us=t_us)


def planner() -> PlannerPolicy:
    """Without a critic: an untrained one refuses commands at random (tests/unit/model/test_heed.py)."""
    return PlannerPolicy(tiny_network(critic_width=0), "tiny")


def policy(speaker: Speaker, **pace: float) -> VlaPolicy:
    taught = Speaker(speaker.network, speaker.tokenizer, replace(speaker.config, pace=PaceConfig(**pace)))
    return VlaPolicy(planner(), taught, "vla-tiny")


def test_the_plan_carries_the_command_of_the_vla_with_its_age(speaker: Speaker) -> None:
    driver = policy(speaker, period_s=0.6, max_age_s=1.0)
    plans = [driver.plan([seen(i * STEP_US)], 0)[0] for i in range(5)]
    assert [round(plan.command_age_s, 3) for plan in plans] == [0.0, 0.2, 0.4, 0.0, 0.2]
    for plan in plans:
        assert plan.command is not None
        assert plan.command.name == "keep/stop"
        assert plan.command.target_speed_mps == 2.0
        assert 0 < plan.command.confidence <= 1
        assert OWN_COMMAND not in plan.flags
        assert "vla" in plan.latency_ms
    assert driver.speaker.counts.commands == 2
    assert driver.usage.told == 5


def test_a_command_comes_after_its_delay(speaker: Speaker) -> None:
    driver = policy(speaker, period_s=0.4, delay_s=0.3, max_age_s=1.0)
    plans = [driver.plan([seen(i * STEP_US)], 0)[0] for i in range(5)]
    assert [OWN_COMMAND in plan.flags for plan in plans] == [True, True, False, False, False]
    assert [round(plan.command_age_s, 3) for plan in plans] == [0.0, 0.0, 0.4, 0.6, 0.4]
    assert (driver.usage.told, driver.usage.absent, driver.usage.too_old) == (3, 2, 0)


def test_too_old_a_command_is_not_used_and_counted(speaker: Speaker) -> None:
    driver = policy(speaker, period_s=5.0, max_age_s=0.5)
    own = planner()
    plans = [driver.plan([seen(i * STEP_US)], 0)[0] for i in range(5)]
    assert [OWN_COMMAND in plan.flags for plan in plans] == [False, False, False, True, True]
    assert (driver.usage.told, driver.usage.too_old) == (3, 2)
    alone = own.plan([seen(3 * STEP_US)], 0)[0]
    np.testing.assert_array_equal(plans[3].proposals_ego, alone.proposals_ego)
    assert plans[3].command == alone.command


def test_malformed_replies_are_counted_and_never_used() -> None:
    driver = VlaPolicy(planner(), tiny_speaker(seed=2), "vla-tiny")
    plan = driver.plan([seen(0)], 0)[0]
    assert OWN_COMMAND in plan.flags
    assert driver.usage.absent == 1
    assert sum(driver.speaker.counts.malformed.values()) == 1


def test_the_command_conditions_the_generator(speaker: Speaker) -> None:
    """The same plan as the planner's under the same command."""
    told = policy(speaker).plan([seen(0)], 4)[0]
    assert told.command is not None
    alone = planner()
    asked = np.array([[told.command.lateral, told.command.longitudinal]], np.int64)
    want = alone.plan([seen(0)], 4, asked)[0]
    np.testing.assert_array_equal(told.proposals_ego, want.proposals_ego)
    asked[0, 1] = Longitudinal.ACCELERATE
    other = alone.plan([seen(0)], 4, asked)[0]
    assert not np.array_equal(other.proposals_ego, want.proposals_ego)


def test_another_drive_starts_with_a_command_of_its_own(speaker: Speaker) -> None:
    driver = policy(speaker, period_s=5.0, max_age_s=5.0)
    for moment in (seen(0), seen(0), seen(STEP_US, 13.0), seen(2 * STEP_US, 13.1), seen(STEP_US, 13.0)):
        assert driver.plan([moment], 0)[0].command_age_s == (0.2 if moment.speed_mps == 13.1 else 0.0)
    assert driver.speaker.counts.commands == 4


def test_it_does_what_every_policy_must_do(speaker: Speaker) -> None:
    driver = policy(speaker)
    conformance.test_has_a_name_and_says_what_it_needs(driver)
    conformance.test_plans_are_finite_ranked_and_of_full_length(driver)
    conformance.test_the_same_seed_gives_the_same_plans(driver)
    conformance.test_plans_do_not_depend_on_batch_or_order(driver)
    conformance.test_inputs_are_left_alone(driver)
    conformance.test_nothing_to_plan_is_no_plans(driver)


def test_a_planner_without_commands_is_refused(speaker: Speaker) -> None:
    planner = PlannerPolicy(tiny_network(use_command=False), "deaf")
    with pytest.raises(UserError, match="deaf: reads no driving command"):
        VlaPolicy(planner, speaker, "vla")


@pytest.fixture(scope="module")
def folder(speaker: Speaker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vla") / "model"
    save_vla(folder, speaker, {"kind": "test"})
    return folder


def test_a_folder_holds_the_whole_vla(folder: Path, speaker: Speaker) -> None:
    loaded, meta = load_vla(folder)
    assert meta.provenance == {"kind": "test"}
    assert loaded.config == speaker.config
    one, two = loaded.command(seen(0)), speaker.command(seen(0))
    np.testing.assert_allclose(one.embedding, two.embedding, atol=1e-5)
    assert one.command is not None
    assert two.command is not None
    assert one.command.confidence == pytest.approx(two.command.confidence, abs=1e-5)
    assert replace(one.command, confidence=two.command.confidence) == two.command


@pytest.mark.parametrize(
    "name", ["config.json", "heads.safetensors", "vlm/model.safetensors", "tokenizer/tokenizer.json"]
)
def test_damage_is_named(folder: Path, name: str) -> None:
    path = folder / name
    before = path.read_bytes()
    try:
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        with pytest.raises(UserError, match=f"{name}: does not match its checksum"):
            check_vla(folder)
        path.unlink()
        with pytest.raises(UserError, match=f"{name}: missing"):
            check_vla(folder)
    finally:
        path.write_bytes(before)


def test_another_folder_is_not_a_vla(tmp_path: Path) -> None:
    save_model(tmp_path / "planner", tiny_network())
    with pytest.raises(UserError, match="not a VLA folder but another model"):
        check_vla(tmp_path / "planner")
    with pytest.raises(UserError, match=r"not a VLA folder \(no meta.json\)"):
        check_vla(tmp_path)


def test_the_recipe_travels_and_names_both_models(folder: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "planner", tiny_network())
    factory = pickle.loads(pickle.dumps(vla_factory(tmp_path / "planner", folder)))
    made = factory()
    assert made.name == factory.run_name
    assert load_vla(folder)[1].vla_id in made.name
    plan = made.plan([seen(0)], 0)[0]
    assert plan.command is not None
    assert plan.command.name == "keep/stop"
