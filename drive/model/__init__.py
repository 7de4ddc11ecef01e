"""The planner: driving command, anchored diffusion, and the model folder."""

from dataclasses import dataclass
from pathlib import Path

from drive.contracts import Policy, UserError

BASE = "base"


@dataclass(frozen=True)
class ModelFactory:
    """Picklable recipe of a planner for worker processes; loading happens in the worker, on one thread."""

    folder: str

    def __call__(self) -> Policy:
        """Load the model and keep torch to one thread: planners run one per process."""
        import torch

        torch.set_num_threads(1)
        return load_policy(self.folder)


def model_folder(spec: str | Path) -> Path:
    """Folder of a model: "base" is the one shipped with the package, anything else is a path.

    Raises:
        UserError: nothing there.
    """
    folder = Path(__file__).parent / BASE if str(spec) == BASE else Path(spec)
    if not (folder / "meta.json").is_file():
        raise UserError(f"{spec}: not a model folder; give 'base' or a folder made by `drive train`")
    return folder


def load_policy(spec: str | Path) -> Policy:
    """Load a planner.

    Raises:
        UserError: no such model, or a damaged one.
    """
    from drive.model.folder import load_model
    from drive.model.policy import PlannerPolicy

    network, meta = load_model(model_folder(spec))
    return PlannerPolicy(network, f"planner-{meta.model_id}")


def policy_factory(spec: str | Path) -> ModelFactory:
    """Check that the model exists and return its recipe; cheap, loads no weights and imports no torch."""
    return ModelFactory(str(model_folder(spec).resolve()))
