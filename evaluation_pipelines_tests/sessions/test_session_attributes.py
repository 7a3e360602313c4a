"""Attributes of the user's choice: from telemetry to columns and filters."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.settings import Settings, SettingsError, load_settings
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Workplace]:
    """A session whose epic changes, and one without any attribute."""
    with open_workplace(tmp_path, session_attributes=("cost.center", "jira.epic")) as workplace:
        workplace.land(
            "logs.jsonl",
            line(claude("user_prompt", 0, session__id="a", jira__epic="A-1"), cost__center=7)
            + line(claude("user_prompt", 1, session__id="a", jira__epic="https://u:p@x/A-2"))
            + line(claude("user_prompt", 2, session__id="a"), jira__epic="A-3", other="x")
            + line(claude("user_prompt", 3, session__id="b")),
        )
        workplace.ingest()
        workplace.build()
        yield workplace


def test_of_each_attribute_the_newest_value_is_a_column(built: Workplace) -> None:
    found = dict(built.sessions().select("session_id", "session_attributes").rows())
    assert found == {
        "a": [{"key": "cost.center", "value": "7"}, {"key": "jira.epic", "value": "A-3"}],
        "b": None,
    }
    events = built.events().sort("event_time")["session_attributes"].to_list()
    assert events[1] == [{"key": "jira.epic", "value": "https://x/A-2"}]


def test_analysts_have_a_column_of_each(built: Workplace) -> None:
    link = publish_analytics(built.stores, NOW).link
    with duckdb.connect(str(link), read_only=True) as connection:
        query = "select session_id, cost_center, jira_epic from {} order by all"
        for table in ("agent_sessions", "sessions"):
            rows = connection.sql(query.format(table)).fetchall()
            assert rows == [("a", "7", "A-3"), ("b", None, None)]
        (said,) = connection.sql(
            "select comment from duckdb_columns() where column_name = 'jira_epic' "
            "and table_name = 'agent_sessions'"
        ).fetchall()
        assert said == ("session_attributes: jira.epic",)


@pytest.mark.parametrize(
    ("wanted", "sessions"),
    [
        ((("jira.epic", "A-3"),), ["a"]),
        ((("jira.epic", "A-3"), ("cost.center", "7")), ["a"]),
        ((("jira.epic", "A-1"),), []),
        ((("jira.epic", "A-3"), ("cost.center", "8")), []),
        ((), ["a", "b"]),
    ],
)
def test_a_filter_takes_sessions_with_all_values(
    built: Workplace, wanted: tuple[tuple[str, str], ...], sessions: list[str]
) -> None:
    found = built.sessions().filter(SessionFilter(attributes=wanted).condition())
    assert sorted(found["session_id"]) == sessions


def test_names_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVAL_SESSION_ATTRIBUTES", " jira.epic, cost.center,jira.epic,")
    assert load_settings().session_attributes == ("cost.center", "jira.epic")
    assert Settings(session_attributes=()).session_attributes == ()


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("model", "'model' would be the column model, which sessions have already"),
        ("a.b,a-b", "'a.b' and 'a-b' would both be the column a_b"),
        ("7up", "'7up' gives no name of a column: it must start with a letter"),
        ("--", "'--' gives no name of a column: it must start with a letter"),
    ],
)
def test_a_name_that_makes_no_column_of_its_own_is_refused(
    monkeypatch: pytest.MonkeyPatch, names: str, reason: str
) -> None:
    monkeypatch.setenv("EVAL_SESSION_ATTRIBUTES", names)
    with pytest.raises(SettingsError, match="EVAL_SESSION_ATTRIBUTES") as raised:
        load_settings()
    assert reason in str(raised.value)
