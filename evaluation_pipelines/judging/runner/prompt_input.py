"""Prompt input of sessions, read and rendered ahead of the calls."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Literal

import polars as pl

from evaluation_pipelines.judging.domain.budget.pricing import PlannedCall
from evaluation_pipelines.judging.domain.conversation import Conversation
from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.domain.prompt.characters import SEAL
from evaluation_pipelines.judging.domain.prompt.messages import Reply
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.rubric import render_prompts
from evaluation_pipelines.judging.domain.prompt.tokens import estimated_message_tokens
from evaluation_pipelines.judging.domain.prompt.transcript import build_transcript
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.session_windows import (
    WindowKey,
    by_window,
    read_session_events,
    window_key,
)
from evaluation_pipelines.schemas.judge_score import LoggedTurn
from evaluation_pipelines.schemas.telemetry import TEXTS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.queries import QueryError

_FACTS = ("content_level", "redactions", "truncated", "injection_suspected")
"""Fields of a score that say what the judge was shown."""

_CHUNK = 32
"""Sessions whose events are read together; bounds the memory of the sessions that wait."""


@dataclass(frozen=True, slots=True)
class PromptInput:
    """Input for judging one session."""

    candidate: Candidate
    score_id: str
    conversation: Conversation
    facts: Mapping[str, Any]

    def open_calls(self, max_output_tokens: int) -> tuple[PlannedCall, ...]:
        """Return the calls that can be made now.

        Money for those that follow is reserved when their length is known.
        """
        requests = self.conversation.open_requests()
        sent = [estimated_message_tokens(each.messages) for each in requests]
        return tuple(PlannedCall(tokens, max_output_tokens) for tokens in sent)


@dataclass(frozen=True, slots=True)
class PromptFailure:
    """A session without prompt input.

    Attributes:
        candidate: The session.
        kind: ``unreadable`` (the events of its date cannot be read), ``changed`` (new events have
            arrived since it was selected) or ``unusable`` (no prompt can be built from it).
        reason: A sentence for users.
    """

    candidate: Candidate
    kind: Literal["unreadable", "changed", "unusable"]
    reason: str


async def produce_prompts(
    lake: Lake, settings: Settings, candidates: Sequence[Candidate]
) -> AsyncIterator[PromptInput | PromptFailure]:
    """Yield the prompt input of all candidates in order; reading and rendering run in threads."""
    unreadable: dict[date, str] = {}
    for start in range(0, len(candidates), _CHUNK):
        chunk = candidates[start : start + _CHUNK]
        events = await _read_chunk(lake, chunk, unreadable)
        for each in chunk:
            window = each.window
            if window.session_date in unreadable:
                yield PromptFailure(each, "unreadable", unreadable[window.session_date])
            elif window_key(window) not in events:
                yield PromptFailure(each, "changed", "the session has continued since")
            elif _has_lost_texts(window, events[window_key(window)]):
                yield PromptFailure(each, "changed", "its texts have expired since")
            else:
                yield await _prepare_in_thread(each, events.pop(window_key(window)), settings)


def _has_lost_texts(window: Window, events: pl.DataFrame) -> bool:
    """Return whether a window that had texts when it was selected has none: they expired since."""
    had_texts = window.content_level != "none"
    return had_texts and all(events[name].is_null().all() for name in TEXTS)


def prepare(candidate: Candidate, events: pl.DataFrame, settings: Settings) -> PromptInput:
    """Build the conversation of a window, including the replies that it has already."""
    unfinished = candidate.unfinished
    score_id = candidate.score_id()
    transcript = build_transcript(
        events,
        candidate.window.content_level,
        settings.judge_max_transcript_tokens,
        partial(redact, personal=settings.judge_redact_personal, seal=SEAL),
    )
    plan = candidate.plan
    prompts = render_prompts(plan.rubric, plan.criteria, transcript, _fence_boundary(score_id))
    samples = plan.setup.samples if unfinished is None else unfinished.samples
    turns = () if unfinished is None else unfinished.turn_log
    facts = {name: getattr(transcript, name) for name in _FACTS}
    not_asked = None if plan.asks_missing_tools else "not asked"
    conversation = Conversation(prompts, plan.criteria, samples, missing_tools_failure=not_asked)
    conversation = replay(conversation, turns)
    return PromptInput(candidate, score_id, conversation, facts)


def _fence_boundary(score_id: str) -> str:
    """Return the fence boundary of a scoring, which was unknown when the session was recorded.

    It is derived from the random id of the scoring, so that a restart sends the same prompt.
    """
    return hashlib.sha256(f"boundary of {score_id}".encode()).hexdigest()[:32]


def replay(conversation: Conversation, turns: Iterable[LoggedTurn]) -> Conversation:
    """Return a conversation after the replies of a turn log."""
    for turn in turns:
        conversation = conversation.with_reply(turn.turn, Reply(turn.text, turn.finish_reason))
    return conversation


async def _read_chunk(
    lake: Lake, chunk: Sequence[Candidate], unreadable: dict[date, str]
) -> dict[WindowKey, pl.DataFrame]:
    """Return the events of some windows; dates that cannot be read are added to ``unreadable``."""
    windows: dict[date, list[Window]] = {}
    for each in chunk:
        windows.setdefault(each.window.session_date, []).append(each.window)
    events: dict[date, pl.DataFrame] = {}
    for day in sorted(windows):
        try:
            events[day] = await asyncio.to_thread(read_session_events, lake, day, windows[day])
        except LakeError as error:
            unreadable[day] = str(error)
    return await asyncio.to_thread(_split, events, windows, unreadable)


def _split(
    events: Mapping[date, pl.DataFrame],
    windows: Mapping[date, Sequence[Window]],
    unreadable: dict[date, str],
) -> dict[WindowKey, pl.DataFrame]:
    """Return the events of each window; planning the SQL takes as long for one date as for all."""
    if not events:
        return {}
    wanted = [each for day in events for each in windows[day]]
    try:
        return by_window(pl.concat(events.values()), wanted)
    except QueryError as error:
        if len(events) == 1:
            unreadable |= dict.fromkeys(events, str(error))
            return {}
    # One of the dates is at fault: each alone.
    alone = [_split({day: rows}, windows, unreadable) for day, rows in events.items()]
    return {key: rows for each in alone for key, rows in each.items()}


async def _prepare_in_thread(
    candidate: Candidate, events: pl.DataFrame, settings: Settings
) -> PromptInput | PromptFailure:
    """Prepare one session; an error in it must not stop the others."""
    try:
        return await asyncio.to_thread(prepare, candidate, events, settings)
    except Exception as error:  # noqa: BLE001 - any error here is limited to this session
        reason = f"no prompt can be built from the session: {type(error).__name__}: {error}"
        return PromptFailure(candidate, "unusable", reason)
