"""``docs/dialects.md``: the dialect of its recipe works, and so does the test that it shows."""

from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines_tests.docs.documents import blocks, named
from evaluation_pipelines_tests.telemetry.domain import reading

TEXT = named("dialects.md")
TESTS = Path(__file__).with_name("acme_tests.py").read_text("utf-8")
RECORDS = Path(__file__).with_name("acme.jsonl").read_bytes().splitlines(keepends=True)


def code(info: str) -> str:
    """The one block of this kind."""
    (found,) = (each.body for each in blocks(TEXT) if each.info == info)
    return found


def run(text: str, name: str) -> dict[str, Any]:
    """What some code defines."""
    module = ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)  # noqa: S102
    return module.__dict__


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Dialect:
    """The dialect of the recipe, registered where the recipe says."""
    dialect = run(code("python module"), "acme")["ACME"]
    assert isinstance(dialect, Dialect)
    place = next(n for n, each in enumerate(DIALECTS) if each.source_cli == "genai")
    known = (*DIALECTS[:place], dialect, *DIALECTS[place:])
    monkeypatch.setattr(reading, "DIALECTS", known)
    return dialect


def test_before_the_recipe_is_followed_its_records_are_only_counted() -> None:
    batch = reading.read(*RECORDS)
    assert batch.events.is_empty()
    assert batch.names["acme.agent", "acme.prompt"] == 1
    assert batch.counts.unknown_records == 4


@pytest.mark.usefixtures("acme")
def test_the_records_of_the_recipe_become_what_it_says() -> None:
    batch = reading.read(*RECORDS)
    assert (batch.counts.repeated_records, batch.counts.value_anomalies) == (1, 0)
    rows = batch.events.select("source_cli", "session_id", "event_name", "success", "input_tokens")
    assert rows.rows() == [
        ("acme", "s1", "user_prompt", None, None),
        ("acme", "s1", "tool_result", False, None),
        ("acme", "s1", "api_request", None, 200),
    ]
    assert batch.events["tool_class"][1] == "shell"
    assert batch.events["attributes"][0] == '{"letters":12}'


@pytest.mark.usefixtures("acme")
def test_the_test_of_the_recipe_passes() -> None:
    tests = [
        each
        for name, each in run(TESTS, "test_acme").items()
        if name.startswith("test_") and isinstance(each, FunctionType)
    ]
    assert len(tests) == 3
    for each in tests:
        each()


def test_the_recipe_names_every_part_of_a_dialect() -> None:
    for part in Dialect.__dataclass_fields__:
        assert part in TEXT
