"""What an agent program cannot say is unknown in its sessions, and not 0."""

from datetime import date

import pytest

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.telemetry.domain.dialects.copilot.telemetry import COPILOT_CHAT
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS, SOURCE_CLIS
from evaluation_pipelines_tests.telemetry.captures import CLIS, REPORTED, Row, stored
from evaluation_pipelines_tests.telemetry_generator.guests import write_guests
from evaluation_pipelines_tests.workplace import open_workplace

WINDOW = "b25-window-1786099092614"
"""A session of Copilot Chat: a window of VS Code."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    with open_workplace(tmp_path_factory.mktemp("never_sent")) as workplace:
        for program in CLIS:
            workplace.land(f"{program}.jsonl", (SAMPLES / program / "logs.jsonl").read_bytes())
        for path in REPORTED.glob("*.jsonl"):
            workplace.land(f"{path.parent.name}-{path.name}", path.read_bytes())
        write_guests(workplace.landing.root, seed=1, end=date(2026, 11, 21), days=4)
        workplace.ingest()
        workplace.build()
        return stored(workplace)


def test_every_program_has_an_example(rows: dict[str, Row]) -> None:
    assert {row["source_cli"] for row in rows.values()} == set(SOURCE_CLIS)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda pattern: pattern.name_prefix)
def test_a_figure_that_a_program_never_sends_is_null(
    rows: dict[str, Row], dialect: Dialect
) -> None:
    of_program = [row for row in rows.values() if row["source_cli"] == dialect.source_cli]
    if dialect is COPILOT_CHAT:
        of_program = [rows[WINDOW]]  # those of the generator have what only spans have
    for name in dialect.never_sends:
        values = {row[name] for row in of_program}
        assert None in values, name
        assert 0 not in values, name


def test_tool_calls_that_neither_records_nor_messages_tell_are_unknown(
    rows: dict[str, Row],
) -> None:
    row = rows["b51-bedrock"]  # records of calls to a model alone
    counts = ("total_tools", "tools_ok", "tools_failed", "tools_denied", "tools_unknown")
    assert [row[name] for name in counts] == [None] * 5
    assert (row["scorable"], row["reason"]) == (False, "tool calls unknown")
    assert rows[WINDOW]["total_tools"] == 4


def test_what_rests_on_such_figures_is_null(rows: dict[str, Row]) -> None:
    row = rows[WINDOW]
    unknown = ("autonomy", "token_efficiency", "cost_efficiency", "tools_denied")
    assert [row[name] for name in unknown] == [None] * 4
    # All input, however much of it was cached.
    assert row["total_tokens"] == row["input_tokens"] + row["output_tokens"] > 147_000
    # 4 of 4 calls succeeded; the active time, 14.5 s and so one minute, has 4 of them: 10 and 10.
    assert (row["quality"], row["productivity"], row["composite"]) == (10, 10, 10)
    assert row["reason"] == "prompts unknown, tokens unknown, cost unknown"
