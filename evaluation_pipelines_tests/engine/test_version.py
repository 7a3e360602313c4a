"""The version that workers are compared by."""

from pathlib import Path

import pytest

from evaluation_pipelines.engine import work


def version_with(sql: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the version of this program with one statement, computed anew."""
    (root / "duckdb").mkdir(parents=True)
    (root / "duckdb/agent_events.sql").write_text(sql)
    monkeypatch.setattr(work, "SQL_ROOTS", (root.with_name("missing"), root))
    work.program_version.cache_clear()
    found = work.program_version()
    work.program_version.cache_clear()
    return found


def test_other_sql_is_another_version_wherever_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, other = (
        version_with(sql, tmp_path / name, monkeypatch)
        for name, sql in (("sql", "select 1"), ("_sql", "select 1"), ("other", "select 2"))
    )
    assert one == two
    assert one != other
    monkeypatch.undo()
    assert work.program_version() not in (one, other)  # it has the statements of this project
