"""Search in the prompts of sessions, the newest first, as far as the time for it reaches."""

import time
from dataclasses import dataclass
from datetime import date

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, SESSION_KEY
from evaluation_pipelines.sessions.session_queries import WINDOW_COLUMNS, window_events
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.telemetry.event_texts import prompts_with

_SESSION = ("organization_id", "session_id")


@dataclass(frozen=True, slots=True)
class Search:
    """Words to look for.

    Attributes:
        words: Text that a prompt contains.
        wanted: How many sessions are enough.
        seconds: When to stop after the day that is searched then; at least one is searched.
    """

    words: str
    wanted: int
    seconds: float


def search(lake: Lake, rows: pl.DataFrame, asked: Search) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows whose windows have a prompt with these words, and rows not searched.

    Args:
        lake: The lake.
        rows: Rows of sessions, the newest first.
        asked: What to look for.

    Raises:
        LakeError: A file cannot be read.
        QueryError: The SQL failed.
    """
    end, found = time.monotonic() + asked.seconds, [rows.clear()]
    days = rows["session_date"].unique().sort(descending=True).to_list()
    for place, day in enumerate(days, 1):
        of_day = rows.filter(session_date=day)
        named = _windows_with(lake, day, asked.words)
        found.append(of_day.join(named, on=SESSION_KEY, how="semi", maintain_order="left"))
        is_enough = sum(each.height for each in found) > asked.wanted
        if is_enough or time.monotonic() > end:
            return pl.concat(found), rows.filter(pl.col("session_date").is_in(days[place:]))
    return pl.concat(found), rows.clear()


def _windows_with(lake: Lake, day: date, words: str) -> pl.DataFrame:
    """Return SESSION_KEY of the windows with a prompt; most sessions have one window."""
    prompts = prompts_with(lake, day, words)
    windows = lake.read(
        AGENT_SESSIONS,
        [day],
        [*SESSION_KEY, "session_id"],
        pl.col("session_id").is_in(prompts["session_id"].unique().implode()),
    ).join(prompts, on=_SESSION, how="semi")
    is_alone = pl.len().over(_SESSION) == 1
    several = windows.filter(~is_alone)
    if several.is_empty():
        return windows.select(SESSION_KEY)
    is_of_several = pl.col("session_id").is_in(several["session_id"].unique().implode())
    events = lake.read(AGENT_EVENTS, [day], WINDOW_COLUMNS, is_of_several)
    split = window_events(events).join(prompts, on=["organization_id", "event_id"], how="semi")
    return pl.concat(each.select(SESSION_KEY) for each in (windows.filter(is_alone), split))
