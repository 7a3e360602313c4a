"""The rule for when a session has ended."""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.schemas import UTC_TIME
from evaluation_pipelines.sessions.domain.ended import first_end, is_terminal
from evaluation_pipelines.sessions.domain.performance import excluded_by
from evaluation_pipelines.sessions.session_queries import query_events
from evaluation_pipelines.settings.exclusions import Rules, check_rules
from evaluation_pipelines_tests.world.rows import (
    api_request,
    at,
    events_frame,
    session,
    sessions_frame,
)

IDLE_MINUTES = 30
LIMIT = timedelta(minutes=IDLE_MINUTES)


def sessions(*rows: tuple[bool | None, datetime], now: datetime) -> pl.DataFrame:
    """Windows of (explicit_end, ended_at) with ``is_terminal`` as of ``now``."""
    schema: dict[str, Any] = {"explicit_end": pl.Boolean, "ended_at": UTC_TIME}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(is_terminal(pl.lit(now).cast(UTC_TIME), IDLE_MINUTES))


@pytest.mark.parametrize(
    ("explicit_end", "silence", "ended"),
    [
        (True, timedelta(0), True),
        (None, timedelta(0), False),
        (False, LIMIT - timedelta(seconds=1), False),
        (False, LIMIT, False),
        (False, LIMIT + timedelta(microseconds=1), True),
        (None, LIMIT, False),
        (None, LIMIT + timedelta(seconds=1), True),
    ],
)
def test_a_session_ends_explicitly_or_by_silence_longer_than_the_limit(
    explicit_end: bool | None, silence: timedelta, ended: bool
) -> None:
    found = sessions((explicit_end, at(0)), now=at(0) + silence)

    assert found["is_terminal"].to_list() == [ended]


def test_the_first_open_session_ends_soon_after_the_limit() -> None:
    rows = ((True, at(0)), (False, at(20)), (False, at(10)))
    ends_at = first_end(sessions(*rows, now=at(30)), IDLE_MINUTES)

    assert ends_at is not None
    assert at(10) + LIMIT < ends_at <= at(10) + LIMIT + timedelta(seconds=1)
    assert sessions(*rows, now=ends_at)["is_terminal"].to_list() == [True, False, True]


def test_without_an_open_session_no_end_is_expected() -> None:
    assert first_end(sessions((True, at(0)), now=at(1)), IDLE_MINUTES) is None
    assert first_end(sessions(now=at(1)), IDLE_MINUTES) is None


def response(second: int, output: int | None, **columns: object) -> dict[str, Any]:
    sent = {"source_cli": "codex", "source_event_name": "sse_event", "input_tokens": 100}
    return api_request(second, **{**sent, "output_tokens": output, "cost_usd": 0.5, **columns})


def test_a_warm_up_comes_before_the_first_answer_of_its_session() -> None:
    rows = [
        response(0, 0),
        response(1, 0),
        response(2, 80),
        response(7, 0),  # cut off
        response(8, None),
        # Its own session was not answered yet.
        response(9, 0, subagent_session_id="child"),
        response(10, 5, subagent_session_id="child"),
        response(11, 0, session_id="s2"),
        response(12, 0, session_id="s3", source_cli="gemini_cli"),
    ]
    found = query_events(events_frame(rows)).sort("event_time")
    names = ("event_name", "source_event_name", "input_tokens", "output_tokens", "cost_usd")
    warm_up = ("other", "warm_up", None, None, None)
    assert found.select(names).rows() == [
        warm_up,
        warm_up,
        ("api_request", "sse_event", 100, 80, 0.5),
        ("api_request", "sse_event", 100, 0, 0.5),
        ("api_request", "sse_event", 100, None, 0.5),
        warm_up,
        ("api_request", "sse_event", 100, 5, 0.5),
        warm_up,
        ("api_request", "sse_event", 100, 0, 0.5),
    ]


def test_the_first_rule_whose_conditions_all_match_excludes_a_session() -> None:
    rules = {
        "robots": {"user_id": "ci", "team_id": "platform"},
        "sandbox": {"organization_id": "sandbox"},
        "ci": {"user_id": "ci"},
    }
    sessions = sessions_frame(
        [
            session(user_id="ci", team_id="platform", organization_id="sandbox"),
            session(user_id="ci", organization_id="sandbox"),
            session(user_id="ci", team_id="search"),
            session(user_id="ada", team_id="platform"),
            session(),
        ]
    )
    found = sessions.with_columns(excluded_by(rules))["excluded_by"].to_list()
    assert found == ["robots", "sandbox", "ci", None, None]
    without = sessions.with_columns(excluded_by({}))["excluded_by"]
    assert (without.dtype, without.to_list()) == (pl.String(), [None] * 5)


def test_a_user_is_also_known_by_the_anonymous_id_that_was_sent_as_user_id() -> None:
    sessions = sessions_frame(
        [
            session(account_id="5bd1"),
            session(user_id="ada@x", account_id="5bd1"),
            session(user_id="5bd1", account_id="other"),
            session(user_id="ada@x", account_id="other"),
        ]
    )
    found = sessions.with_columns(excluded_by({"ci": {"user_id": "5bd1"}}))["excluded_by"]
    assert found.to_list() == ["ci", "ci", "ci", None]
    by_place = {"ci": {"repository": "engine", "person_id": "ada"}}
    rows = sessions_frame(
        [session(repository="engine", person_id="ada"), session(repository="engine")]
    )
    assert rows.with_columns(excluded_by(by_place))["excluded_by"].to_list() == ["ci", None]


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"all": {}}, "'all' must have a name, and name at least one column"),
        ({" ": {"user_id": "ci"}}, "must have a name"),
        (
            {"long": {"user_id": "ci", "prompt": "x"}},
            "'long' names prompt, which is not one of: org",
        ),
    ],
)
def test_a_rule_that_excludes_everything_or_names_no_column_is_refused(
    rules: Rules, why: str
) -> None:
    check_rules({"ci": {"user_id": "ci", "masque": "Scout"}})
    with pytest.raises(ValueError, match=why):
        check_rules(rules)
