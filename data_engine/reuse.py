"""Drives that an earlier night made already: the same model on the same routes."""

import os
import shutil
from pathlib import Path

from data_engine.night import SUMMARY, Night, finished_nights
from data_engine.versions import code_version
from drive.contracts import UserError
from drive.files import new_folder, read_json, read_object

RESULTS, LOGS = "results.json", "logs"


def offer_drives(night: Night, policy: str, suite: str, out: Path) -> bool:
    """Put an earlier night's drives into an empty `out`; True if there were some.

    Only drives of the light simulator, which repeats itself exactly, made by the same clean checkout. The
    results file is copied, the logs are linked. Whether the routes are really the same is for the run to
    check: it refuses a results file of other routes, and `withdraw` takes the offer back.
    """
    code = code_version()
    if out.exists() or night.config.drive.carla is not None or code is None or code.endswith("+"):
        return False
    for folder in reversed(finished_nights(night.workspace)):
        if read_object(folder / SUMMARY, "lineage")["lineage"].get("code") != code:
            continue
        for place in sorted((folder / "evaluate").glob("*")):
            if not (place / RESULTS).is_file() or not (place / LOGS).is_dir():
                continue
            try:
                run = read_json(place / RESULTS)["nightdrive"]["run"]
            except (UserError, KeyError, TypeError):
                continue
            if (run.get("policy"), run.get("suite")) == (policy, suite):
                with new_folder(out) as temp:  # beside `out`: relative links stay right
                    os.symlink(os.path.relpath((place / LOGS).resolve(), out.resolve()), temp / LOGS)
                    shutil.copyfile(place / RESULTS, temp / RESULTS)
                return True
    return False


def withdraw(out: Path) -> None:
    """Remove what `offer_drives` put there; the drives themselves stay where they are."""
    (out / LOGS).unlink(missing_ok=True)
    shutil.rmtree(out)
