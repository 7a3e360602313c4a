"""Where SQL files are found, and the steps of a query."""

from pathlib import Path

import pytest

from evaluation_pipelines.storage import sql_files
from evaluation_pipelines.storage.sql_files import read_sql, read_steps


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder in a wheel and the one in a checkout, both empty."""
    found = (tmp_path / "wheel", tmp_path / "checkout")
    for folder in found:
        folder.mkdir()
    monkeypatch.setattr(sql_files, "_FOLDERS", found)
    return found


def test_the_queries_of_this_project_are_found() -> None:
    assert read_sql("agent_events").startswith("-- Grain: ")
    assert next(iter(read_steps("agent_sessions"))) == "sessions"
    assert read_steps("agent_events") == {}


def test_a_file_is_found_in_a_checkout(folders: tuple[Path, Path]) -> None:
    (folders[1] / "q.sql").write_text("select 'ő' as a", encoding="utf-8")

    assert read_sql("q") == "select 'ő' as a"


def test_what_a_wheel_carries_comes_before_what_lies_beside_it(folders: tuple[Path, Path]) -> None:
    for folder, sql in zip(folders, ("select 1", "select 2"), strict=True):
        (folder / "q.sql").write_text(sql, encoding="utf-8")

    assert read_sql("q") == "select 1"


def test_steps_come_in_the_order_of_their_numbers(folders: tuple[Path, Path]) -> None:
    (folders[1] / "q").mkdir()
    for name in ("q.sql", "q/020_b.sql", "q/010_c.sql", "q/100_a.sql"):
        (folders[1] / name).write_text(f"-- {name}", encoding="utf-8")

    assert read_steps("q") == {"c": "-- q/010_c.sql", "b": "-- q/020_b.sql", "a": "-- q/100_a.sql"}


def test_a_step_without_a_number_is_refused(folders: tuple[Path, Path]) -> None:
    (folders[1] / "q").mkdir()
    for name in ("q.sql", "q/first.sql"):
        (folders[1] / name).touch()

    with pytest.raises(ValueError, match=r"first\.sql: a step is named NNN_<table>\.sql"):
        read_steps("q")


@pytest.mark.usefixtures("folders")
def test_a_file_that_is_not_there_is_an_error_that_says_where_it_was_looked_for() -> None:
    with pytest.raises(FileNotFoundError, match=r"no SQL file nope\.sql in .*wheel, .*checkout"):
        read_sql("nope")
    assert read_steps("nope") == {}
