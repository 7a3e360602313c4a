"""Search in the prompts of sessions, the newest first, as far as the time for it reaches."""

import time
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.telemetry.event_texts import sessions_with_prompt

_SESSION = ["organization_id", "session_id"]


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
    """Return the rows whose sessions were asked for with these words, and rows not searched.

    Args:
        lake: The lake.
        rows: Rows of sessions, the newest first.
        asked: What to look for.

    Raises:
        LakeError: A file cannot be read.
    """
    end, found = time.monotonic() + asked.seconds, [rows.clear()]
    days = rows["session_date"].unique().sort(descending=True).to_list()
    for place, day in enumerate(days, 1):
        of_day = rows.filter(session_date=day)
        named = sessions_with_prompt(lake, day, asked.words)
        found.append(of_day.join(named, on=_SESSION, how="semi", maintain_order="left"))
        is_enough = sum(each.height for each in found) > asked.wanted
        if is_enough or time.monotonic() > end:
            return pl.concat(found), rows.filter(pl.col("session_date").is_in(days[place:]))
    return pl.concat(found), rows.clear()
