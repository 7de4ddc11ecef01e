"""One nightly at a time; the loser names the holder, a dead holder is reclaimed."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from data_engine.lock import HOLDER_FILE, nightly_lock, read_holder
from drive.contracts import UserError

HOLD = """
    import os, sys, time
    from pathlib import Path
    from data_engine.lock import nightly_lock
    with nightly_lock(Path(sys.argv[1])):
        {body}
        print("held", flush=True)
        time.sleep(60)
"""


def hold(workspace: Path, body: str = "pass") -> subprocess.Popen[str]:
    code = textwrap.dedent(HOLD).format(body=body)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(workspace)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "held"
    return process


def test_the_loser_fails_fast_and_names_the_holder(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    try:
        start = time.monotonic()
        with pytest.raises(UserError, match=f"pid {holder.pid} on "), nightly_lock(tmp_path):
            pass
        assert time.monotonic() - start < 3
    finally:
        holder.kill()
        holder.communicate()


def test_a_killed_holder_is_reclaimed(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert read_holder(tmp_path) is not None
    with nightly_lock(tmp_path):
        note = read_holder(tmp_path)
        assert note is not None
        assert note["pid"] == os.getpid()
    assert not (tmp_path / HOLDER_FILE).exists()


def test_a_lock_inherited_by_an_orphan_is_reclaimed(tmp_path: Path) -> None:
    fork = "child = os.fork() or time.sleep(60); (Path(sys.argv[1]) / 'orphan').write_text(str(child))"
    holder = hold(tmp_path, fork)
    holder.kill()
    holder.wait()
    orphan = int((tmp_path / "orphan").read_text())
    try:
        with nightly_lock(tmp_path):
            assert read_holder(tmp_path) is not None
    finally:
        os.kill(orphan, signal.SIGKILL)
        holder.communicate()


def test_it_can_be_taken_again_after_release(tmp_path: Path) -> None:
    for _ in range(2):
        with nightly_lock(tmp_path):
            note = read_holder(tmp_path)
            assert note is not None
            assert note["pid"] == os.getpid()
        assert read_holder(tmp_path) is None


RECLAIM = """
    import sys, time
    from pathlib import Path
    from data_engine import lock
    from drive.contracts import UserError

    write = lock.write_json
    def slowly(path, value):
        time.sleep(0.3)
        write(path, value)
    lock.write_json = slowly
    try:
        with lock.nightly_lock(Path(sys.argv[1])):
            print("held", flush=True)
            time.sleep(6)
    except UserError:
        print("refused", flush=True)
"""


def test_of_several_that_reclaim_at_once_one_wins(tmp_path: Path) -> None:
    """Found by reading: a slow winner's lock was taken for the dead holder's, and thrown away."""
    dead = hold(tmp_path)
    dead.kill()
    dead.communicate()
    command = [sys.executable, "-c", textwrap.dedent(RECLAIM), str(tmp_path)]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=60)[0].strip() for process in several]
    assert sorted(said) == ["held", "refused", "refused", "refused"]
