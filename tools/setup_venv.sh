#!/usr/bin/env bash
# Makes .venv with everything nightdrive needs; run by `make venv` from the repository root.
set -euo pipefail

fail() { printf 'error: %s\n' "$1" >&2; exit 2; }

usable() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3 python; do
        if usable "$candidate"; then printf '%s' "$candidate"; return 0; fi
    done
    return 1
}

python=$(find_python) || fail "Python 3.11 or 3.12 is needed and was not found. Debian 12 or Ubuntu 24.04:
  sudo apt-get install -y python3 python3-venv
elsewhere: PYTHON=/path/to/python3.11 make venv"
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || fail "$python cannot make virtual environments. Run:
  sudo apt-get install -y python3-venv"

if ! .venv/bin/python -c 'import pip' >/dev/null 2>&1; then
    echo "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
pip=(.venv/bin/python -m pip install --disable-pip-version-check --no-input)
[ -t 1 ] || pip+=(--progress-bar off -q)

echo "installing packages (about 3 GB on disk, 4 to 8 minutes)"
if ! "${pip[@]}" -c constraints.txt -e '.[dev]'; then
    echo "the tested versions in constraints.txt do not install here; trying the ranges in pyproject.toml" >&2
    "${pip[@]}" -e '.[dev]'
fi

# Two packages bring OpenCV and overwrite each other's files; the headless build, which needs no libGL, goes last.
opencv=$(.venv/bin/python -c 'from importlib.metadata import version; print(version("opencv-python-headless"))')
if .venv/bin/python -c 'import cv2; assert cv2.version.headless' >/dev/null 2>&1; then
    echo "OpenCV $opencv headless is in place"
else
    "${pip[@]}" --force-reinstall --no-deps "opencv-python-headless==$opencv"
fi

.venv/bin/python tools/check_imports.py
touch .venv/.installed
echo "ready: .venv/bin/drive --help"
