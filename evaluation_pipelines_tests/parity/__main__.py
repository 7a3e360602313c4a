"""Everything that the program tells, dumped for comparison; held while the internals are rebuilt.

Three data folders are made with a pinned clock (``folders``), and every table, list, answer and
command of them is written as sorted lines of JSON, one file per surface (``surfaces``)::

    python -m evaluation_pipelines_tests.parity dump FOLDER [--only demo|captures|installation]
    python -m evaluation_pipelines_tests.parity diff FOLDER_A FOLDER_B
    python -m evaluation_pipelines_tests.parity check [--write]

The repository has the digests of the surfaces alone (``data/parity/digests.txt``), not their rows:
to see what a change did, dump the commit before it and the one after it, and ``diff`` both.
When the rebuilding is done this package goes away.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DIGESTS = Path(__file__).parents[1] / "data" / "parity" / "digests.txt"
FOLDERS = ("demo", "captures", "installation")
MOST_SHOWN, MOST_CHARACTERS = 20, 200
_ENVIRONMENT = {"POLARS_MAX_THREADS": "1", "TZ": "UTC", "LOGNAME": "parity"}


def dump(target: Path, name: str) -> None:
    """Write the surfaces of one data folder, and of the definitions with that of the demo."""
    os.environ |= _ENVIRONMENT
    time.tzset()
    # Imported now: these read the environment, and the program after its clock is pinned.
    from evaluation_pipelines_tests.parity.pinned import pin

    pin()
    from evaluation_pipelines_tests.parity.folders import opened
    from evaluation_pipelines_tests.parity.graph import definitions
    from evaluation_pipelines_tests.parity.normal import Normal
    from evaluation_pipelines_tests.parity.surfaces import surfaces

    with tempfile.TemporaryDirectory() as folder:
        with opened(name, Path(folder)) as steps:
            normal = Normal(folder)
            for surface, rows in surfaces(steps):
                _write(target / name / f"{surface}.jsonl", rows, normal)
        if name == FOLDERS[0]:
            for surface, rows in definitions():
                _write(target / "definitions" / f"{surface}.jsonl", rows, normal)


def _write(path: Path, rows: Any, normal: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = ([normal(key), normal(row)] for key, row in rows)
    lines = sorted(json.dumps(each, ensure_ascii=False, sort_keys=True) for each in plain)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def dump_all(target: Path) -> None:
    """Dump each data folder in a process of its own: one can open only one ClickHouse."""
    for name in FOLDERS:
        module = "evaluation_pipelines_tests.parity"
        subprocess.run([sys.executable, "-m", module, "dump", target, "--only", name], check=True)


def digests(dumped: Path) -> dict[str, str]:
    """Return surface -> number of rows and SHA-256 of its file."""
    found = {}
    for path in sorted(dumped.glob("*/*.jsonl")):
        content = path.read_bytes()
        surface = f"{path.parent.name}/{path.stem}"
        rows, digest = len(content.splitlines()), hashlib.sha256(content).hexdigest()
        found[surface] = f"{rows} {digest}"
    return found


def differences(before: Path, after: Path) -> Iterator[str]:
    """Yield a line for each value that differs: surface, key, column, before, after."""
    names = {path.relative_to(each) for each in (before, after) for path in each.glob("*/*.jsonl")}
    for name in sorted(names):
        old, new = _rows(before / name), _rows(after / name)
        lines = [
            f"{name.with_suffix('')} | {key} | {changed}"
            for key in sorted(old.keys() | new.keys())
            for changed in _changed(old.get(key), new.get(key))
        ]
        yield from lines[:MOST_SHOWN]
        if len(lines) > MOST_SHOWN:
            yield f"{name.with_suffix('')} | and {len(lines) - MOST_SHOWN} more"


def _rows(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a file by key; rows that share one are numbered."""
    if not path.exists():
        return {}
    rows, seen = dict[str, dict[str, Any]](), Counter[str]()
    for line in path.read_bytes().splitlines():  # a text has more kinds of line ends
        key, row = json.loads(line)
        seen[key] += 1
        rows[key if seen[key] == 1 else f"{key} ({seen[key]})"] = dict(_leaves(row, ""))
    return rows


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of everything that is no object or list."""
    if isinstance(value, (dict, list)) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in pairs:
            yield from _leaves(each, f"{path}.{name}" if path else str(name))
    else:
        yield path, value


def _changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[str]:
    if old is None or new is None:
        yield "the row | there | gone" if new is None else "the row | missing | there"
        return
    for column in sorted(old.keys() | new.keys()):
        was, became = (json.dumps(row.get(column), ensure_ascii=False) for row in (old, new))
        if was != became:
            yield f"{column} | {was[:MOST_CHARACTERS]} | {became[:MOST_CHARACTERS]}"


def check(*, write: bool) -> int:
    """Compare digests with those of the repository, or write them; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        dump_all(Path(folder))
        found = digests(Path(folder))
    if write:
        DIGESTS.parent.mkdir(exist_ok=True)
        DIGESTS.write_text("".join(f"{name} {each}\n" for name, each in found.items()))
    known = dict(line.split(" ", 1) for line in DIGESTS.read_text().splitlines())
    changed = sorted(each for each in known.keys() | found if known.get(each) != found.get(each))
    for each in changed:
        sys.stdout.write(f"{each}: {known.get(each, 'new')} -> {found.get(each, 'gone')}\n")
    return int(bool(changed))


def main() -> int:
    """Run the command of the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("dump", "diff", "check"))
    parser.add_argument("folders", type=Path, nargs="*", help="one for dump, two for diff")
    parser.add_argument("--only", choices=FOLDERS, help="dump this data folder alone")
    parser.add_argument("--write", action="store_true", help="let check write the digests")
    asked = parser.parse_args()
    if len(asked.folders) != {"dump": 1, "diff": 2, "check": 0}[asked.command]:
        parser.error("dump needs one folder, diff two, check none")
    if asked.command == "check":
        return check(write=asked.write)
    if asked.command == "diff":
        lines = list(differences(*asked.folders))
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return int(bool(lines))
    if asked.only:
        dump(asked.folders[0].absolute(), asked.only)
    else:
        dump_all(asked.folders[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
