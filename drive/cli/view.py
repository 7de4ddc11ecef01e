"""`drive view`: one plan of a policy for one moment of a recorded drive, as a picture."""

import argparse
from pathlib import Path

from drive.cli import output
from drive.contracts import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive view`."""
    parser.add_argument("drives", metavar="DRIVES", help="folder with drive logs")
    parser.add_argument("--log", metavar="ID", help="which drive (default: the first)")
    parser.add_argument("--step", type=int, metavar="N", help="planning step, from 0 (default: the middle)")
    parser.add_argument("--policy", default="base", help="as for drive bench (default: base)")
    parser.add_argument("--seed", type=int, default=0, help="of the plan's noise")
    parser.add_argument("--out", default="plan.png", metavar="FILE.png", help="picture (default: plan.png)")


def run(args: argparse.Namespace) -> int:
    """Plan, draw, write the picture; 0."""
    from drive.cli.policies import policy_factory
    from drive.data.observations import observation_at
    from drive.files import write_atomic
    from drive.logs.reader import list_drives, read_drive
    from drive.viz.plan_view import draw_plan, words

    out = Path(args.out)
    if out.suffix != ".png":
        raise UserError(f"--out {out}: pictures are PNG files; give a name that ends in .png")
    root = Path(args.drives)
    known = [meta.log_id for meta in list_drives(root)]
    if not known:
        raise UserError(f"{root}: no drive logs there; record some with `drive sim`")
    if args.log is not None and args.log not in known:
        raise UserError(f"--log {args.log}: not below {root}; there are {len(known)}, first {known[0]}")
    log = read_drive(root, args.log or known[0])
    count = len(log.plans.step)
    if not count:
        raise UserError(f"{log.meta.log_id}: has no planning steps; nothing to plan for")
    step = count // 2 if args.step is None else args.step
    if not 0 <= step < count:
        raise UserError(f"--step {step}: {log.meta.log_id} has planning steps 0 to {count - 1}")
    policy = policy_factory(args.policy)()
    observation = observation_at(log, step)
    for _ in range(2):  # the first one pays for imports: the second tells the latency, and is the same plan
        plan = policy.plan([observation], args.seed)[0]
    write_atomic(out, draw_plan(log, step, plan))
    print("\n".join(words(log, step, plan)[:-2]))
    print(f"wrote {out}")
    output.finish(args, {"log_id": log.meta.log_id, "step": step, "policy": policy.name, "picture": str(out)})
    return 0
