"""``docs/telemetry.md``, "Adding an agent": the examples are read, and the tests of one pass."""

from pathlib import Path

import pytest

from evaluation_pipelines.telemetry.domain.attributes import text
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS, SPAN_SOURCES
from evaluation_pipelines.telemetry.domain.dialects.span_source import TOOL, SpanSource
from evaluation_pipelines.telemetry.domain.spans import reading as spans
from evaluation_pipelines_tests.docs import acme_tests
from evaluation_pipelines_tests.docs.acme import ACME
from evaluation_pipelines_tests.telemetry.domain import reading
from evaluation_pipelines_tests.telemetry.spans.test_odd_spans import line, tool

RECORDS = Path(__file__).with_name("acme.jsonl").read_bytes().splitlines(keepends=True)
TESTS = [value for name, value in vars(acme_tests).items() if name.startswith("test_")]

ACME_SPANS = SpanSource(
    scopes=("acme.spans",),
    kinds=("acme.kind",),
    roles={"tool": TOOL},
    columns={"acme.tool": ("tool_name", text)},
    tool_classes={"look": "search"},
)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the dialect where the page puts it."""
    place = next(n for n, dialect in enumerate(DIALECTS) if dialect.source_cli == "genai")
    monkeypatch.setattr(reading, "DIALECTS", (*DIALECTS[:place], ACME, *DIALECTS[place:]))


def test_without_the_dialect_its_records_are_only_counted() -> None:
    batch = reading.read(*RECORDS)
    assert batch.events.is_empty()
    assert batch.names["acme.agent", "acme.prompt"] == 1
    assert batch.counts.unknown_records == 4


@pytest.mark.usefixtures("registered")
def test_the_records_become_rows() -> None:
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


@pytest.mark.usefixtures("registered")
def test_the_tests_of_the_example_pass() -> None:
    assert len(TESTS) == 3
    for test in TESTS:
        test()


def test_a_tool_named_by_the_own_attribute_of_a_library_has_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spans, "SPAN_SOURCES", (ACME_SPANS, *SPAN_SOURCES))
    sent = tool(1, None, attributes={"acme.kind": "tool", "acme.tool": "look"})
    row = reading.read_one(line(sent, scope="acme.spans"))
    assert (row["tool_name"], row["tool_class"]) == ("look", "search")


@pytest.mark.parametrize("base", [Dialect, SpanSource])
def test_every_part_of_a_dialect_is_explained(base: type[Dialect | SpanSource]) -> None:
    explained = str(base.__doc__)
    assert [part for part in base.__dataclass_fields__ if f"  {part}: " not in explained] == []
