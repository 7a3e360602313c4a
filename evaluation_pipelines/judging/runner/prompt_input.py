"""What the judge is shown of a session, the conversation that comes of it, and what is kept."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import polars as pl

from evaluation_pipelines.judging.domain.budget.pricing import PlannedCall
from evaluation_pipelines.judging.domain.conversation import (
    MISSING_TOOLS_TURN,
    Conversation,
    Judgement,
    Reply,
)
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.rubric import render_prompts
from evaluation_pipelines.judging.domain.prompt.tokens import (
    estimated_message_tokens,
    estimated_tokens,
)
from evaluation_pipelines.judging.domain.prompt.transcript import build_transcript
from evaluation_pipelines.judging.domain.score import LoggedTurn
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.score_records import PromptFacts, ScoreResult
from evaluation_pipelines.settings import Settings


@dataclass(frozen=True, slots=True)
class PromptInput:
    """Everything that is needed to judge one session."""

    candidate: Candidate
    score_id: str
    conversation: Conversation
    shown: PromptFacts

    def remaining_calls(self, max_output_tokens: int) -> "PlannedCalls":
        """What is still to be asked when all goes well: neither reminders nor retries."""
        return planned_calls(self.conversation, max_output_tokens)


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """Calls of a conversation: those that are open now, and those that follow."""

    now: tuple[PlannedCall, ...]
    later: tuple[PlannedCall, ...] = ()


def prepare(candidate: Candidate, events: pl.DataFrame, settings: Settings) -> PromptInput:
    """Turn the events of a window into a conversation, with the replies that it has already."""
    unfinished = candidate.unfinished
    score_id = str(uuid4()) if unfinished is None else unfinished.score_id
    transcript = build_transcript(
        events,
        candidate.window.content_level,
        settings.judge_max_transcript_tokens,
        partial(redact, emails=settings.judge_redact_emails),
    )
    plan = candidate.plan
    prompts = render_prompts(plan.rubric, plan.criteria, transcript, boundary_of(score_id))
    samples = plan.judging.samples if unfinished is None else unfinished.samples
    turns = () if unfinished is None else unfinished.turn_log
    shown = PromptFacts(
        transcript.content_level,
        transcript.redactions,
        transcript.truncated,
        transcript.injection_suspected,
    )
    conversation = replayed(Conversation(prompts, plan.criteria, samples), turns)
    return PromptInput(candidate, score_id, conversation, shown)


def boundary_of(score_id: str) -> str:
    """The boundary of a scoring's fence: nobody could know it when the session was recorded.

    It follows from the random id of the scoring, so that a restart asks in the very same words.
    """
    return hashlib.sha256(f"boundary of {score_id}".encode()).hexdigest()[:32]


def replayed(conversation: Conversation, turns: Iterable[LoggedTurn]) -> Conversation:
    """The conversation after the replies of a turn log."""
    for turn in turns:
        conversation = conversation.with_reply(turn.turn, Reply(turn.text, turn.finish_reason))
    return conversation


def planned_calls(conversation: Conversation, max_output_tokens: int) -> PlannedCalls:
    """The open requests, and the last one if it is not among them."""
    requests = conversation.open_requests()
    sent = [estimated_message_tokens(each.messages) for each in requests]
    now = tuple(PlannedCall(tokens, max_output_tokens) for tokens in sent)
    if any(each.turn == MISSING_TOOLS_TURN for each in requests) or not requests:
        return PlannedCalls(now)
    question = estimated_tokens(conversation.prompts.missing_tools)
    last = max(sent) + max_output_tokens + question
    return PlannedCalls(now, (PlannedCall(last, max_output_tokens),))


def completion_of(judgement: Judgement) -> ScoreResult:
    """What the ledger keeps of a judgement."""
    verdict = judgement.verdict
    return ScoreResult(
        total_score=verdict.total,
        criteria_scores=verdict.criteria,
        failure_tags=None if verdict.failure_tags is None else list(verdict.failure_tags),
        sample_totals=list(judgement.sample_totals),
        sample_errors=list(judgement.sample_errors),
        score_spread=judgement.spread,
        score_analysis=verdict.analysis,
        missing_tools_analysis=judgement.missing_tools,
        missing_tools_error=judgement.missing_tools_error,
        inconsistent_total=verdict.inconsistent_total,
    )
