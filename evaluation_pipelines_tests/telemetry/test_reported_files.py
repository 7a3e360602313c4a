"""Files as people reported them, read together by the real program: each gives its numbers."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from evaluation_pipelines_tests.program import Program

_DATA = Path(__file__).parents[1] / "data" / "reported"
CASES = (
    "two-collectors-record-attribute-codex",
    "gemini-parallel-equal-calls",
    "js-time-low-high",
    "requests-without-newline",
    "rotation-cut-1",
    "gemini-outfile",
)


def test_all_reported_files_together_give_the_numbers_of_each(program: Program) -> None:
    landing = program.folder / "data" / "landing"
    landing.mkdir(parents=True)
    for name in CASES:
        shutil.copy(_DATA / f"{name}.jsonl", landing)
    two_days_ago = time.time() - 2 * 86_400
    os.utime(landing / "rotation-cut-1.jsonl", (two_days_ago, two_days_ago))
    assert program("ingest").code == 0
    quarantined = program("quarantine", "list", "--format", "json").items()
    assert [each["path"] for each in quarantined] == ["rotation-cut-1.jsonl"]
    assert program("build").code == 0
    rows = program("sessions", "--format", "json", "--limit", "1000").items()
    found = {row["session_id"]: row for row in rows}
    for name in CASES:
        for expected in json.loads((_DATA / f"{name}.expected.json").read_text())["sessions"]:
            row = found.get(expected["session_id"], {})
            assert {key: _sent(row.get(key)) for key in expected} == expected, name


def _sent(value: Any) -> Any:
    """Return a value as the cases spell it: times with milliseconds and Z."""
    is_time = isinstance(value, str) and value.endswith("+00:00")
    return value.replace("+00:00", ".000Z") if is_time else value
