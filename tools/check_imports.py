"""Import every package with compiled parts; a missing system library becomes one apt-get line.

Run by `make venv` with the new environment's Python; exit code 1 if a package cannot be imported.
"""

import importlib
import re
import sys

PACKAGES = ("numpy", "cv2", "carla", "torch", "shapely", "pyarrow", "matplotlib", "PIL", "sklearn")
DEBIAN_PACKAGE = {
    "libGL.so.1": "libgl1",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgomp.so.1": "libgomp1",
    "libz.so.1": "zlib1g",
    "libstdc++.so.6": "libstdc++6",
    "libX11.so.6": "libx11-6",
}


def problem(package: str) -> str | None:
    """Why `package` cannot be imported, None if it can."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        return str(error)
    return None


def main() -> int:
    """Try all packages; print what is missing and the command that mends it."""
    found = {package: why for package in PACKAGES if (why := problem(package))}
    for package, why in found.items():
        print(f"error: cannot import {package}: {why}", file=sys.stderr)
    libraries = re.findall(r"(lib[\w.+-]+\.so[\w.]*): cannot open", " ".join(found.values()))
    debian = sorted({DEBIAN_PACKAGE.get(name, name) for name in libraries})
    if debian:
        print("a system library is missing; run:", file=sys.stderr)
        print(f"  sudo apt-get install -y {' '.join(debian)}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
