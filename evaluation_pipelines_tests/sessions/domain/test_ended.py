"""The rule for when a session has ended."""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.schemas import UTC_TIME
from evaluation_pipelines.sessions.domain.ended import first_end, is_terminal
from evaluation_pipelines_tests.builders import at

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
