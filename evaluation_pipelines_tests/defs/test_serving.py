"""The asset of the analysts' database: published also if ClickHouse cannot serve it, but failed."""

import socket

import pytest

from evaluation_pipelines_tests.defs.code_location import CodeLocation, failure_of, session_line


def test_a_server_that_is_down_fails_the_step_after_the_database_is_published(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    dsn = f"clickhouse://evaluation:topsecret@127.0.0.1:{port}/default"
    monkeypatch.setenv("EVAL_SERVE_CLICKHOUSE_DSN", dsn)
    monkeypatch.setenv("EVAL_CLICKHOUSE_PATIENCE_S", "0")
    location.run_ingest(session_line(0))
    assert location.build(0).success
    result = location.execute_date(None, "analytics_database")
    assert not result.success
    (made,) = result.asset_materializations_for_node("analytics_database")
    assert made.metadata["rows of agent_sessions"].value == 1
    failure = failure_of(result)
    assert "not all tables were served to ClickHouse" in failure
    assert "topsecret" not in failure
    assert location.workplace.settings.analytics_path.exists()
