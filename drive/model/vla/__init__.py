"""The VLA: a vision-language model that gives the planner its driving command, with its reasons."""

from dataclasses import dataclass
from pathlib import Path

from drive.contracts import Policy
from drive.model import load_policy, model_folder
from drive.model.folder import read_meta
from drive.model.vla.folder import read_vla_meta


@dataclass(frozen=True)
class VlaFactory:
    """Picklable recipe of a planner under a VLA; loading happens in the worker, on one thread.

    Attributes:
        planner, vla: Folders.
    """

    planner: str
    vla: str

    @property
    def run_name(self) -> str:
        """Name in results and logs; ids are part of it, so that other weights never resume a run."""
        planner, vla = read_meta(Path(self.planner)), read_vla_meta(Path(self.vla))
        return f"vla-{vla.vla_id}-planner-{planner.model_id}"

    def __call__(self) -> Policy:
        """Load both and keep torch to one thread: planners run one per process."""
        import torch

        from drive.model.policy import PlannerPolicy
        from drive.model.vla.folder import load_vla
        from drive.model.vla.policy import VlaPolicy

        torch.set_num_threads(1)
        planner = load_policy(self.planner)
        assert isinstance(planner, PlannerPolicy)
        speaker, _ = load_vla(Path(self.vla))
        return VlaPolicy(planner, speaker, self.run_name)


def vla_factory(planner: str | Path, vla: str | Path) -> VlaFactory:
    """Check that both folders exist and return the recipe; cheap, loads no weights and imports no torch.

    Raises:
        UserError: one of them is missing or something else.
    """
    read_vla_meta(Path(vla))
    return VlaFactory(str(model_folder(planner).resolve()), str(Path(vla).resolve()))
