"""Print the part of requirements.lock that some extras need, with its hashes.

    python3 .ci/locked.py service embedded > locked.txt
    pip install --require-hashes -r locked.txt
    pip install --no-deps --no-build-isolation -e .

What builds the package is always part of it. Runs before anything is installed.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_ALWAYS = "build"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VIA = re.compile(r"^    # (?:via |  )([A-Za-z0-9][A-Za-z0-9._-]*)(?: \(.*\))?$", re.MULTILINE)


def locked(lock: str, project: dict[str, Any], extras: list[str]) -> str:
    """Return the blocks of a lock that the dependencies of a project with some extras need.

    A package belongs to it if a dependency does that brought it in.
    """
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]
    found = _wanted(project, extras)
    brought_by = [(_name(each), set(map(_name, _VIA.findall(each)))) for each in blocks]
    size = -1
    while len(found) > size:
        size = len(found)
        found |= {name for name, parents in brought_by if parents & found}
    return "".join(each for each in blocks if _name(each) in found)


def _wanted(project: dict[str, Any], extras: list[str]) -> set[str]:
    optional = project["optional-dependencies"]
    if unknown := sorted(set(extras) - optional.keys()):
        sys.exit(f"there is no extra {', '.join(unknown)}, only: {', '.join(sorted(optional))}")
    named = [project["dependencies"], *(optional[each] for each in (*extras, _ALWAYS))]
    return {_name(requirement) for group in named for requirement in group}


def _name(text: str) -> str:
    """Return the normalized name at the beginning of a requirement."""
    return re.sub(r"[-_.]+", "-", _NAME.findall(text)[0]).lower()


if __name__ == "__main__":
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lock_text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    sys.stdout.write(locked(lock_text, tables["project"], sys.argv[1:]))
