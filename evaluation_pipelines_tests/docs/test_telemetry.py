"""``docs/telemetry.md`` says what is read, from whom, and into which columns."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
import yaml

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.schemas import TOOL_CLASSES
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines.telemetry.reading import event_reader
from evaluation_pipelines_tests.docs.agents import SENDERS, SENT, sent_by, with_tables
from evaluation_pipelines_tests.docs.documents import FOLDER, blocks, named

TEXT = named("telemetry.md")
HOOK = FOLDER / "hooks" / "masque.py"


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


@cache
def sent_in_samples() -> dict[str, set[str]]:
    """Return agent program -> ``<event>.<column>`` that its genuine telemetry has."""
    reader = event_reader(Settings(), datetime(2026, 12, 1, tzinfo=UTC))
    for path in sorted(SAMPLES.rglob("*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            reader.read(line, Origin(path.name, 0))
    found = defaultdict[str, set[str]](set)
    for row in reader.take(0).events.iter_rows(named=True):
        names = (name for name, value in row.items() if value is not None)
        found[row["source_cli"]].update(f"{row['event_name']}.{name}" for name in names)
    return found


EACH = pytest.mark.parametrize("program", SENDERS, ids=lambda program: program.title)


@EACH
def test_a_program_sends_what_its_genuine_telemetry_holds(program: AgentProgram) -> None:
    assert program.logs is not None
    filled = sent_in_samples().get(program.logs.source_cli, set())
    told = sent_by(program)
    assert told.keys() == SENT.keys()
    wrong = {
        what: when
        for what, when in told.items()
        if (what in filled) != (not when.startswith(("no", "(")))
    }
    assert wrong == {}


@EACH
def test_nobody_is_said_not_to_send_what_its_dialect_reads(program: AgentProgram) -> None:
    """A column of several events may be read for one of them only."""
    assert program.logs is not None
    if program.logs.source_cli in sent_in_samples():
        return  # those of a family share columns
    columns = {column for column, _ in program.logs.columns.values()}
    told: dict[str, set[str]] = {}
    for what, when in sent_by(program).items():
        told.setdefault(what.partition(".")[2], set()).add(when)
    never = {column for column, found in told.items() if found == {"no"}}
    assert never & columns - {"content", "decision", "session_id"} == set()


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
    environment = {
        variable: value for variable, value in os.environ.items() if variable != "MASQUE"
    }
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


def test_the_tables_of_agents_are_those_of_the_registry() -> None:
    """Refresh them with: python -m evaluation_pipelines_tests.docs.agents."""
    page = (FOLDER / "telemetry.md").read_text("utf-8")
    assert with_tables(page) == page
