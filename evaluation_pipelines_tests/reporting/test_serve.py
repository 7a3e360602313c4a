"""Publishing also serves ClickHouse: the same rows, what changed alone, and without a server."""

import socket
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.reporting.comparison_report import refresh_comparison
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines_tests.built_before import build_by, build_from
from evaluation_pipelines_tests.erasure.whole_installation import fill_ledger
from evaluation_pipelines_tests.otlp_builders import DAY_S, claude, line, session
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.reporting.served_rows import ask, published, served
from evaluation_pipelines_tests.workplace import NOW, open_workplace


@pytest.fixture
def no_server() -> str:
    """The DSN of a server that is down."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    return f"clickhouse://evaluation:topsecret@127.0.0.1:{port}/default"


def test_every_row_of_the_analysts_database_is_served(
    tmp_path: Path, clickhouse_over_http_database: str
) -> None:
    dsn = clickhouse_over_http_database
    settings = {"serve_clickhouse_dsn": dsn, "session_attributes": ["team.name"]}
    with open_workplace(tmp_path, **settings, publish_texts=True) as workplace:
        fill_ledger(workplace)
        write_masque_lift(workplace.stores, NOW)
        refresh_comparison(workplace.stores, NOW)
        first = publish_analytics(workplace.stores, NOW)
        assert first.not_served is None
        with_texts = published(first.link)
        assert served(dsn, first.link) == with_texts
        assert first.served["event_texts"] == sum(with_texts["event_texts"].values()) > 0
        filled = {table for table, rows in with_texts.items() if rows}
        assert filled > {"overrides", "current_scorecards", "sessions", "tool_reports"}
    with open_workplace(tmp_path, **settings, people_view="person") as workplace:
        again = publish_analytics(workplace.stores, NOW)
        assert served(dsn, again.link) == published(again.link)
        # Texts are published no more; ids of people are, in these.
        assert with_texts.keys() - published(again.link).keys() == {
            *("event_texts", "event_texts_landed")
        }
        assert set(again.served) == {"agent_events", "agent_sessions", "sessions", "tool_reports"}


def test_a_session_is_served_as_it_was_worked(
    tmp_path: Path, clickhouse_over_http_database: str
) -> None:
    """Two calls by hand: the first second has a prompt, the next ones a good and a bad call."""
    dsn = clickhouse_over_http_database
    calls = [
        claude("tool_result", second, session__id="s", tool_name=name, success=success)
        for second, name, success in ((1, "Bash", "true"), (2.5, "Read", "false"))
    ]
    with open_workplace(tmp_path, serve_clickhouse_dsn=dsn) as workplace:
        build_from(workplace, line(claude("user_prompt", 0, session__id="s"), *calls))
        first = publish_analytics(workplace.stores, NOW)
        changed = publish_analytics(workplace.stores, NOW + timedelta(days=1))
    query = """
        select session_key, session_date, started_at, ended_at, duration_s, total_tools,
            tools_failed, input_tokens, JSONExtractInt(tool_mix, 'shell') as shell, masque
        from sessions
    """
    start = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert ask(dsn, query) == [
        {
            "session_key": "s#baseline-1",
            "session_date": date(2026, 6, 1),
            "started_at": start,
            "ended_at": start + timedelta(seconds=2.5),
            "duration_s": 2.5,
            "total_tools": 2,
            "tools_failed": 1,
            "input_tokens": None,
            "shell": 1,
            "masque": None,
        }
    ]
    assert first.served["agent_events"] == 3
    assert changed.served == {"schema_version": 1}
    assert ask(dsn, "select published_at from schema_version") == [
        {"published_at": NOW + timedelta(days=1)}
    ]


def test_a_late_session_changes_the_percentiles_of_a_later_date_there_too(
    tmp_path: Path, clickhouse_over_http_database: str
) -> None:
    dsn = clickhouse_over_http_database
    with open_workplace(tmp_path, serve_clickhouse_dsn=dsn) as workplace:
        of_class = b"".join(session(f"a{n}") for n in range(19))
        build_from(workplace, of_class + session("b", DAY_S))
        publish_analytics(workplace.stores, NOW)
        build_from(workplace, session("late"))
        publish_analytics(workplace.stores, NOW)
    # The twentieth; all are equal.
    for table in ("session_performance", "sessions"):
        query = f"select percentile_in_class from {table} where session_id = 'b'"  # noqa: S608
        assert ask(dsn, query) == [{"percentile_in_class": 50.0}]


def test_a_server_that_is_down_keeps_nothing_from_analysts_and_is_made_good(
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    clickhouse_over_http_database: str,
    no_server: str,
) -> None:
    monkeypatch.setenv("EVAL_CLICKHOUSE_PATIENCE_S", "0")
    monkeypatch.setenv("EVAL_SERVE_CLICKHOUSE_DSN", no_server)
    build_by(program, session("a") + session("b", DAY_S))
    ran = program("publish")
    assert ran.code == 4
    assert ran.out.startswith("published ")
    assert "error: not all tables were served to ClickHouse at clickhouse://evaluation@" in ran.err
    assert "EVAL_SERVE_CLICKHOUSE_DSN" in ran.err
    assert "publish again to send what is missing" in ran.err
    assert "topsecret" not in ran.err
    link = program.folder / "data/analytics.duckdb"
    assert len(published(link)["sessions"]) == 2

    monkeypatch.setenv("EVAL_SERVE_CLICKHOUSE_DSN", clickhouse_over_http_database)
    ran = program("publish")
    assert (ran.code, ran.err) == (0, "")
    assert "sent to ClickHouse: 4 agent_events, 2 agent_sessions, " in ran.out
    program.land("more.jsonl", session("c", DAY_S))
    program("ingest")
    program("build")
    assert "sent to ClickHouse: 4 agent_events, 2 agent_sessions, " in program("publish").out
    assert served(clickhouse_over_http_database, link) == published(link)


def test_the_database_of_reputation_is_refused(tmp_path: Path, no_server: str) -> None:
    other = no_server.replace("evaluation:topsecret@", "someone@")
    both = {"serve_clickhouse_dsn": no_server, "clickhouse_dsn": other}
    with open_workplace(tmp_path, **both) as workplace:
        said = publish_analytics(workplace.stores, NOW).not_served
    assert said is not None
    assert "name the same database" in said
