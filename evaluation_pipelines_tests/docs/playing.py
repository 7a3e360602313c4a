"""Runs the blocks of a document and gives the document with the outputs of that run.

A block whose fence says ``run`` is run: ``sh`` by bash, ``python`` by Python, ``sql`` by DuckDB on
the analysts' database where it is published. All blocks of a document share one folder, which
looks like a checkout. A ``text`` block right after it is its output; in ``text approx`` figures
may differ by a quarter.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb

from evaluation_pipelines_tests.docs.documents import ROOT, Block, blocks
from evaluation_pipelines_tests.docs.telemetry import midnight, prepare

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TOLERANCE = 0.25


def refreshed(document: Path, folder: Path) -> str:
    """The text of a document with every output as it is now.

    Its blocks run once more if a day (UTC) has begun meanwhile: data and clock are of one day.

    Raises:
        AssertionError: a block failed; the message shows it and what it printed.
    """
    text = document.read_text(encoding="utf-8")
    found = blocks(text)
    if not any(block.is_run for block in found):
        return text
    begun = midnight()
    played = _played(text, found, folder / "first")
    return played if midnight() == begun else _played(text, found, folder / "again")


def _played(text: str, found: list[Block], folder: Path) -> str:
    folder.mkdir()
    prepare(text, folder)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "evaluation_pipelines").symlink_to(ROOT / "evaluation_pipelines")
    lines = text.split("\n")
    changes = []
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.is_run:
            output = _run(block, folder)
            if after is not None and _is_output_of(block, after, lines):
                changes.append((after, output))
    for block, output in reversed(changes):  # from the end, so that line numbers stay
        if not ("approx" in block.info and _is_close(block.body, output)):
            new = [f"{block.indent}{line}".rstrip() for line in output.split("\n")]
            lines[block.first + 1 : block.last] = new
    return "\n".join(lines)


def _is_output_of(block: Block, after: Block, lines: list[str]) -> bool:
    between = "".join(lines[block.last + 1 : after.first])
    return after.language in ("text", "yaml") and not between.strip()


def _run(block: Block, folder: Path) -> str:
    if block.language == "sql":
        return _query(block.body, folder)
    program = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
    done = subprocess.run(
        [*program[block.language], block.body],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"this failed:\n{block.body}\n{done.stdout}"
    return _tidy(done.stdout)


def _query(sql: str, folder: Path) -> str:
    """What DuckDB prints of a query, as its shell does."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        database = Path("data/analytics.duckdb")
        is_published = database.exists()
        with duckdb.connect(
            database if is_published else ":memory:", read_only=is_published
        ) as connection:
            connection.execute("set TimeZone = 'UTC'")
            connection.sql(sql).show(max_width=118, max_rows=60)
    return _tidy(printed.getvalue())


def _environment() -> dict[str, str]:
    """That of a person who has set nothing."""
    ours = ("EVAL_", "DAGSTER_", "PYTEST_", "COV_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _tidy(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.strip("\n").split("\n"))


def _is_close(before: str, now: str) -> bool:
    """Whether two outputs say the same, figures within the tolerance."""
    if _words(before) != _words(now):
        return False
    pairs = zip(_NUMBER.findall(before), _NUMBER.findall(now), strict=True)
    return all(abs(float(a) - float(b)) <= _TOLERANCE * float(b) for a, b in pairs)


def _words(text: str) -> list[str]:
    """The text with every figure alike; columns may be wider or narrower."""
    return _NUMBER.sub("0", text).split()
