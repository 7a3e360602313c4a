"""Plant each mutant in a copy of the project and run the tests that should notice it.

``python -m evaluation_pipelines_tests.mutants [NAME...] [--all-tests]``: exit code 1 if more than 3
survive.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evaluation_pipelines_tests.mutants.mutant_list import ROOT, Mutant, mutants

MOST_SURVIVORS = 3
_AT_A_TIME = 2
_LONGEST_S = 3600
"""A mutant that runs for ever is noticed."""

_PASSED, _FAILED, _INTERRUPTED = 0, 1, 2
"""Exit codes of pytest; any other one says nothing of a mutant."""


@dataclass(frozen=True, slots=True)
class Run:
    """What tests made of a mutant: the first that failed, None if it survived."""

    mutant: Mutant
    killer: str | None
    seconds: float

    def __str__(self) -> str:
        found = f"survived: {self.mutant.fault}" if self.killer is None else f"by {self.killer}"
        state = "SURVIVED" if self.killer is None else "killed"
        return f"{state:8} {self.seconds:6.1f} s  {self.mutant.name}  {found}"


def copy_project(folder: Path) -> None:
    """Copy the tracked files and those that are about to be, under version control of their own."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for arguments in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


def first_failure(folder: Path, tests: Iterable[str]) -> str | None:
    """Run tests of a copy of the project; return the first that fails.

    Raises:
        RuntimeError: The tests could not be run.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # The copy is imported in place of the project that is installed.
    environment = os.environ | {"PYTHONPATH": str(folder), "POLARS_MAX_THREADS": "1"}
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {_LONGEST_S} s"
    if ended.returncode == _PASSED:
        return None
    if ended.returncode not in (_FAILED, _INTERRUPTED):
        raise RuntimeError(f"pytest: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
    named = (line.split(" - ")[0] for line in ended.stdout.splitlines())
    return next((line for line in named if line.startswith(("FAILED ", "ERROR "))), "an error")


def run(mutant: Mutant | None, tests: Sequence[str]) -> tuple[str | None, float]:
    """Return the first test that fails with a mutant, and the seconds it took."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        copy_project(folder)
        if mutant is not None:
            (folder / mutant.file).write_text(mutant.mutated(folder), encoding="utf-8")
        start = time.monotonic()
        return first_failure(folder, tests), time.monotonic() - start


def judge(mutant: Mutant, *, all_tests: bool) -> Run:
    """Run the tests of a mutant, and if it survives and all are asked for, every test."""
    killer, seconds = run(mutant, mutant.tests)
    if killer is None and all_tests:
        killer, more = run(mutant, ())
        seconds += more
    found = Run(mutant, killer, seconds)
    _print(f"{found}")
    return found


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m evaluation_pipelines_tests.mutants")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to run, all by default")
    parser.add_argument(
        "--all-tests", action="store_true", help="run every test for those that survive theirs"
    )
    asked = parser.parse_args(arguments)
    known = {mutant.name: mutant for mutant in mutants()}
    if unknown := set(asked.names) - known.keys():
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    chosen = [known[name] for name in asked.names] or list(known.values())
    failed, _ = run(None, sorted({test for mutant in chosen for test in mutant.tests}))
    if failed is not None:
        parser.error(f"it fails without a mutant: {failed}")
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        runs = list(pool.map(lambda mutant: judge(mutant, all_tests=asked.all_tests), chosen))
    survived = sum(run.killer is None for run in runs)
    _print(f"\n{len(runs) - survived} of {len(runs)} killed")
    for judged in sorted(runs, key=lambda run: run.killer is not None):
        _print(f"{judged}")
    return int(survived > MOST_SURVIVORS)


if __name__ == "__main__":
    sys.exit(main())
