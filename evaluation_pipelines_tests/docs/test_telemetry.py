"""``docs/telemetry.md`` says what is read, from whom, and into which columns."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.schemas import TOOL_CLASSES
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines.telemetry.reading import event_reader
from evaluation_pipelines_tests.docs.documents import FOLDER, blocks, named, table_rows
from evaluation_pipelines_tests.docs.libraries import with_table

TEXT = named("telemetry.md")
HOOK = FOLDER / "hooks" / "masque.py"


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_every_agent_that_is_understood_is_named() -> None:
    rows = table_rows(TEXT, "## Other agents")

    assert {row[1].strip("`") for row in rows} == {dialect.source_cli for dialect in DIALECTS}


def events_of_all_samples() -> Iterator[Mapping[str, object]]:
    """Rows of all genuine telemetry that the package ships."""
    reader = event_reader(Settings(), datetime(2026, 12, 1, tzinfo=UTC))
    for path in sorted(SAMPLES.rglob("*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            reader.read(line, Origin(path.name, 0))
    return reader.take(0).events.iter_rows(named=True)


GIVEN = table_rows(TEXT, "### What each agent gives, and what it cannot")
GIVERS = ("claude_code", "codex", "gemini_cli", "qwen_code", "opencode", "genai", "cline")
CAPTURED = GIVERS[:4]
"""Of the others no events were captured."""


@pytest.mark.parametrize("giver", GIVERS)
def test_what_each_agent_gives_is_what_its_genuine_telemetry_holds(giver: str) -> None:
    filled = {
        (row["event_name"], name)
        for row in events_of_all_samples()
        if row["source_cli"] == giver
        for name, value in row.items()
        if value is not None
    }
    place = 2 + GIVERS.index(giver)
    said = {tuple(names_in(row[1]).pop().split(".")): row[place] for row in GIVEN}
    assert len(said) == len(GIVEN) > 20
    wrong = {
        what: cell
        for what, cell in said.items()
        if (what in filled) != (not cell.startswith(("no", "(")))
    }
    assert wrong == {}
    if giver not in CAPTURED:
        assert all(cell.startswith(("no", "(")) for cell in said.values())


def test_nobody_is_said_not_to_give_what_its_dialect_reads() -> None:
    """A column of several events may be read for one of them only."""
    for place, giver in enumerate(GIVERS[4:], start=6):
        columns = {
            target
            for dialect in DIALECTS
            if dialect.source_cli == giver
            for target, _ in dialect.columns.values()
        }
        cells: dict[str, set[str]] = {}
        for row in GIVEN:
            cells.setdefault(names_in(row[1]).pop().partition(".")[2], set()).add(row[place])
        never = {column for column, found in cells.items() if found == {"no"}}
        assert never & columns - {"content", "decision", "session_id"} == set(), giver


def test_the_classes_of_tools_are_those_of_the_code() -> None:
    said = TEXT.partition("`tool_class` is ")[2].partition(". ")[0]

    assert names_in(said) == set(TOOL_CLASSES)


def test_the_hook_writes_lines_that_are_understood(tmp_path: Path) -> None:
    told = tmp_path / "ada.attribution.jsonl"
    environment = {**os.environ, "MASQUE": "Codesmith", "MASQUE_LINES": str(told)}
    for event in ("SessionStart", "SessionEnd"):
        subprocess.run(
            [sys.executable, HOOK],
            input=json.dumps({"session_id": "s1", "hook_event_name": event, "cwd": "/work"}),
            env=environment,
            text=True,
            check=True,
        )
    reader = event_reader(Settings(), datetime.now(UTC))
    for line in told.read_bytes().splitlines():
        reader.read(line, Origin("ada", 0))
    batch = reader.take(0)

    assert batch.quarantined == []
    assert batch.counts.attribution_lines == 2
    # The don is told again with the doff, as the same event.
    told_events = (
        batch.events.select("event_name", "masque", "event_id").unique().sort("event_name")
    )
    assert told_events.select("event_name", "masque").rows() == [
        ("masque_doff", "Codesmith"),
        ("masque_don", "Codesmith"),
    ]


def test_without_a_masque_the_hook_writes_nothing(tmp_path: Path) -> None:
    environment = {each: value for each, value in os.environ.items() if each != "MASQUE"}
    subprocess.run(
        [sys.executable, HOOK],
        input='{"session_id": "s1", "hook_event_name": "SessionStart"}',
        env={**environment, "MASQUE_LINES": str(tmp_path / "lines")},
        text=True,
        check=True,
    )

    assert list(tmp_path.iterdir()) == []


def test_the_log_record_of_a_don_is_understood() -> None:
    command = next(block.body for block in blocks(TEXT) if "masque.don" in block.body)
    reader = event_reader(Settings(), datetime(2026, 12, 1, tzinfo=UTC))
    reader.read(command.partition("-d '")[2].removesuffix("'").encode(), Origin("file", 0))
    row = reader.take(0).events.row(0, named=True)

    assert (row["event_name"], row["masque"]) == ("masque_don", "Critic")
    assert row["session_id"] == "677cbd61-a030-4c45-b01a-0e7a92bdd89e"


def test_settings_in_examples_can_be_read() -> None:
    examples = [block.body for block in blocks(TEXT) if block.language == "yaml"]

    assert all(isinstance(yaml.safe_load(example), dict) for example in examples)
    assert "hooks" in json.loads((FOLDER / "hooks" / "settings.json").read_text("utf-8"))


def test_the_table_of_libraries_is_that_of_the_data() -> None:
    """Refresh it with: python -m evaluation_pipelines_tests.docs.libraries."""
    page = (FOLDER / "telemetry.md").read_text("utf-8")
    assert with_table(page) == page
