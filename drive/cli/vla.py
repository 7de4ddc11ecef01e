"""`drive vla`: train a VLA from recorded drives, or ask one about a moment of a drive."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.contracts import UserError

if TYPE_CHECKING:
    from drive.contracts import DrivingCommand, Observation
    from drive.model.vla.speaker import CommandReply, ReasoningReply
    from drive.train.vla_config import VlaTrainConfig

OPTIONS = {"train": ("config", "data", "out", "init_from"), "ask": ("vla", "log", "step")}
COMMON = ("drives",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive vla`: one group per action."""
    parser.usage = (
        "drive vla train --config FILE [--data LOGROOT]... [--out DIR] [--init-from DIR] [key=value ...]\n"
    )
    parser.usage += "       drive vla ask DRIVES --vla DIR [--log ID] [--step N] [--json FILE]"
    parser.add_argument("action", choices=tuple(OPTIONS), help="what to do")
    parser.add_argument(
        "rest",
        nargs="*",
        metavar="ARGUMENT",
        help="train: changes of the config, key=value; ask: folder of drives",
    )
    train = parser.add_argument_group("drive vla train", "The same command continues a stopped run.")
    train.add_argument("--config", metavar="FILE", help="e.g. configs/vla/tiny.yaml (needed)")
    train.add_argument(
        "--data", action="append", default=[], metavar="LOGROOT", help="drive logs; repeatable"
    )
    train.add_argument("--out", metavar="DIR", help="output folder (default: runs/vla/<config name>)")
    train.add_argument("--init-from", metavar="DIR", help="start from this VLA folder")
    ask = parser.add_argument_group(
        "drive vla ask", "One moment: reasoning and command, beside what was recorded."
    )
    ask.add_argument("--vla", metavar="DIR", help="VLA folder (needed)")
    ask.add_argument("--log", metavar="ID", help="which drive (default: the first)")
    ask.add_argument("--step", type=int, metavar="N", help="planning step, from 0 (default: the middle)")


def run(args: argparse.Namespace) -> int:
    """Train, or ask; exit code 75 when training was stopped by SIGTERM with the state saved."""
    needed = {"train": ("config",), "ask": ("vla",)}[args.action]
    absent = [f"--{name}" for name in needed if not getattr(args, name)]
    if absent:
        raise UserError(f"drive vla {args.action}: needs {' and '.join(absent)}")
    foreign = [
        n for action, names in OPTIONS.items() if action != args.action for n in names if getattr(args, n)
    ]
    if foreign:
        option = foreign[0].replace("_", "-")
        raise UserError(f"drive vla {args.action}: --{option} is not an option of it")
    return _train(args) if args.action == "train" else _ask(args)


def _train(args: argparse.Namespace) -> int:
    from drive.cli import output

    config = _config(args)
    out_dir = Path(args.out) if args.out else Path("runs") / "vla" / Path(args.config).stem
    output.check_folder("--out", out_dir)
    from drive.model.vla.folder import read_vla_meta
    from drive.train.vla import train_vla

    folder = train_vla(config, out_dir)
    meta = read_vla_meta(folder)
    numbers = meta.provenance["validation"]
    title = f"validation: {meta.provenance['validation_samples']} samples of routes not trained on"
    rows = [[name, value] for name, value in numbers.items()]
    output.print_table(title, ["number", "value"], rows or [["(no sample was held out)", None]])
    print(f"\nVLA {meta.vla_id} in {folder}")
    output.finish(args, payload(folder, meta.vla_id, meta.provenance))
    return 0


def payload(folder: Path, vla_id: str, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What --json writes after training."""
    return {"vla": folder, "vla_id": vla_id, **provenance}


def _config(args: argparse.Namespace) -> "VlaTrainConfig":
    from drive.config import load_config
    from drive.model.vla.folder import check_vla
    from drive.train.vla_config import VlaTrainConfig

    config = load_config(VlaTrainConfig, args.config, args.rest)
    if args.data:
        config = replace(config, data=tuple(Path(root) for root in args.data))
    if args.init_from:
        config = replace(config, init_from=Path(args.init_from))
    if config.init_from is not None:
        check_vla(config.init_from)
    if not config.data:
        raise UserError(f"{args.config}: no training data; give --data LOGROOT")
    for root in config.data:
        if not root.is_dir():
            raise UserError(
                f"--data {root}: no such log folder; record drives there first (drive sim --out DIR)"
            )
    return config


def _ask(args: argparse.Namespace) -> int:
    from drive.cli import output
    from drive.data.observations import observation_at
    from drive.logs.reader import list_drives, read_drive
    from drive.model.vla.folder import check_vla

    if len(args.rest) != 1:
        raise UserError("drive vla ask: needs one folder of drives")
    root = Path(args.rest[0])
    known = [meta.log_id for meta in list_drives(root)]
    if not known:
        raise UserError(f"{root}: no drive logs there; record some with `drive sim`")
    if args.log is not None and args.log not in known:
        raise UserError(f"--log {args.log}: not below {root}; there are {len(known)}, first {known[0]}")
    check_vla(Path(args.vla))
    log = read_drive(root, args.log or known[0])
    count = len(log.plans.step)
    step = count // 2 if args.step is None else args.step
    if not 0 <= step < count:
        raise UserError(f"--step {step}: {log.meta.log_id} has {count} planning steps, from 0")
    answer = asked(Path(args.vla), observation_at(log, step))
    recorded = [int(value) for value in log.plans.label_command[step]]
    moment = {"log_id": log.meta.log_id, "step": step, "recorded": _named(recorded)}
    _print(moment, answer)
    output.finish(args, {**moment, **answer})
    return 0


def asked(vla: Path, observation: "Observation") -> dict[str, Any]:
    """Command and reasoning of a VLA for one observation, as --json writes them."""
    import torch

    from drive.model.vla.folder import load_vla

    torch.set_num_threads(1)
    speaker, meta = load_vla(vla)
    for _ in range(
        2
    ):  # the first one pays for imports: the second tells the latency, and is the same command
        said = speaker.command(observation)
    why = speaker.reasoning(observation)
    return {
        "vla_id": meta.vla_id,
        "said": said.command and _plain(said.command),
        "command_problem": said.problem,
        "passes": said.passes,
        "latency_ms": said.latency_ms,
        "reasoning": why.reasoning and why.reasoning.values(),
        "reasoning_problem": why.problem,
        "reply": why.text,
        "agree": _agree(said, why),
    }


def _plain(command: "DrivingCommand") -> dict[str, Any]:
    values = {name: value for name, value in asdict(command).items() if name != "reason"}
    return values | {
        "lateral": command.lateral.name.lower(),
        "longitudinal": command.longitudinal.name.lower(),
    }


def _agree(said: "CommandReply", why: "ReasoningReply") -> bool | None:
    """Is the decision of the reasoning the command? None if one of them is malformed."""
    if said.command is None or why.reasoning is None:
        return None
    return why.reasoning.decision == said.command.name


def _named(command: list[int]) -> str | None:
    """Recorded command as a name, None where none was recorded."""
    from drive.contracts import Lateral, Longitudinal

    if min(command) < 0:
        return None
    return f"{Lateral(command[0]).name}/{Longitudinal(command[1]).name}".lower()


def _print(moment: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    said, why = answer["said"], answer["reasoning"]
    print(f"{moment['log_id']}, planning step {moment['step']}")
    if said is None:
        print(f"command:   malformed: {answer['command_problem']}")
    else:
        goal = ", ".join(f"{value:.0f}" for value in said["goal_ego"])
        print(
            f"command:   {said['lateral']}/{said['longitudinal']} ({100 * said['confidence']:.0f} %), to "
            f"{said['target_speed_mps']:.0f} m/s at ({goal}) m; {answer['passes']} passes, "
            f"{answer['latency_ms']:.0f} ms"
        )
    print(f"recorded:  {moment['recorded'] or '(none)'}")
    if why is None:
        print(f"reasoning: malformed: {answer['reasoning_problem']}")
        return
    for name, value in why.items():
        print(f"{name + ':':<10} {value}")
    if answer["agree"] is False:
        print("the decision of the reasoning is another one than the command")
