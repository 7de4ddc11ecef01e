"""Names of policies: the shipped model, a model folder, a registered model, a floor, or the expert."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from drive.contracts import Policy, UserError

PolicyFactory = Callable[[], Policy]
EXPERT: Literal["expert"] = "expert"
REGISTERED = "models:/"
VLA, AND = "vla:", "+"


def model_folder(spec: str) -> Path:
    """Folder of a model: "base", a path, or "models:/NAME@ALIAS" looked up in the registry.

    The model is loaded once: what is wrong with it is said before a worker starts or a folder is made.

    Raises:
        UserError: nothing by that name, or it is damaged.
    """
    from drive.model import model_folder as local_folder
    from drive.model.folder import load_model

    if spec.startswith(REGISTERED):
        from data_engine.registry import resolve

        folder = resolve(spec)
    else:
        folder = local_folder(spec)
    load_model(folder)
    return folder


def policy_factory(spec: str) -> PolicyFactory:
    """Picklable recipe of a policy for worker processes; a model has been checked.

    Args:
        spec: "base" (the shipped model), a model folder, "models:/NAME@ALIAS", a floor's name, or
            "vla:PLANNER+FOLDER": a planner under the commands of a VLA.

    Raises:
        UserError: nothing by that name, or the expert.
    """
    from drive.bench.floors import FLOORS
    from drive.model import BASE
    from drive.model import policy_factory as model_factory

    if spec == EXPERT:
        raise UserError(f"policy {spec!r}: needs the true scene, which only `drive sim` has")
    if spec in FLOORS:
        return FLOORS[spec]
    if spec.startswith(VLA):
        return _under_vla(spec)
    if spec != BASE and not spec.startswith(REGISTERED) and not Path(spec).exists():
        known = (*FLOORS, BASE, EXPERT)
        near = get_close_matches(spec, known, 1)
        listed = f"known: {', '.join(known)} (sim only), a model folder, {REGISTERED}NAME@ALIAS"
        tail = f"did you mean {near[0]!r}?" if near else listed
        raise UserError(f"policy {spec!r}: no such policy or folder; {tail}")
    return model_factory(model_folder(spec))


def _under_vla(spec: str) -> PolicyFactory:
    from drive.model.vla import vla_factory
    from drive.model.vla.folder import check_vla

    planner, plus, vla = spec.removeprefix(VLA).partition(AND)
    if not plus or not planner or not vla:
        raise UserError(
            f"policy {spec!r}: write {VLA}PLANNER{AND}FOLDER, e.g. {VLA}base{AND}runs/vla/tiny/model"
        )
    check_vla(Path(vla))
    return vla_factory(model_folder(planner), vla)


def driver(spec: str) -> "PolicyFactory | Literal['expert']":
    """As `policy_factory`, or "expert" for the simulator's privileged driver."""
    return EXPERT if spec == EXPERT else policy_factory(spec)
