"""What the judge is shown of many sessions, read and written a few ahead of those who ask."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

import polars as pl

from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.runner.prompt_input import PromptInput, prepare
from evaluation_pipelines.judging.runner.run_context import RunContext
from evaluation_pipelines.judging.session_windows import WindowKey, key_of, read_events
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.queries import QueryError

_CHUNK = 32
"""Sessions whose events are read at once: what a run keeps in memory beside what it asks about."""


@dataclass(frozen=True, slots=True)
class PromptFailure:
    """A session without material.

    ``why`` is ``unreadable`` (the events of its date cannot be read), ``changed`` (it went on
    meanwhile) or ``odd`` (no prompt can be made of it); ``reason`` is a sentence.
    """

    candidate: Candidate
    why: Literal["unreadable", "changed", "odd"]
    reason: str


async def produce_prompts(
    desk: RunContext, candidates: Sequence[Candidate]
) -> AsyncIterator[PromptInput | PromptFailure]:
    """Prompts of all candidates in their order, read and written in threads, some at a time."""
    unreadable: dict[date, str] = {}
    for start in range(0, len(candidates), _CHUNK):
        chunk = candidates[start : start + _CHUNK]
        events = await _events(desk, chunk, unreadable)
        for each in chunk:
            window = each.window
            if window.session_date in unreadable:
                yield PromptFailure(each, "unreadable", unreadable[window.session_date])
            elif key_of(window) not in events:
                yield PromptFailure(each, "changed", "the session has gone on meanwhile")
            else:
                yield await _material(desk, each, events.pop(key_of(window)))


async def _events(
    desk: RunContext, chunk: Sequence[Candidate], unreadable: dict[date, str]
) -> dict[WindowKey, pl.DataFrame]:
    """Events of some windows; a date that cannot be read leaves the others alone."""
    found: dict[WindowKey, pl.DataFrame] = {}
    for day in sorted({each.window.session_date for each in chunk}):
        windows = [each.window for each in chunk if each.window.session_date == day]
        try:
            found |= await asyncio.to_thread(read_events, desk.lake, day, windows)
        except (LakeError, QueryError) as error:
            unreadable[day] = str(error)
    return found


async def _material(
    desk: RunContext, candidate: Candidate, events: pl.DataFrame
) -> PromptInput | PromptFailure:
    """The prompt of a session; one odd session must not stop the others."""
    try:
        return await asyncio.to_thread(prepare, candidate, events, desk.settings)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is about this session alone
        what = f"the session cannot be shown to the judge: {type(error).__name__}: {error}"
        return PromptFailure(candidate, "odd", what)
