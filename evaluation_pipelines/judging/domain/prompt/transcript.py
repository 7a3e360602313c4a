"""Transcript of one session window for the judge."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.judging.domain.prompt.characters import SEAL
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted
from evaluation_pipelines.judging.domain.prompt.sanitize import TextSanitizer
from evaluation_pipelines.judging.domain.prompt.session_steps import SessionStep, session_steps
from evaluation_pipelines.judging.domain.prompt.truncate import (
    PromptPart,
    PromptStep,
    cut_to_tokens,
    total_tokens,
    truncate,
)

MAX_CHARACTERS = 10_000_000
"""The texts of a session with more characters lose their middle before they are searched."""

_MAX_TEXT_LENGTH = 200_000
_MAX_REPEATED_PROMPT = 2_000
_NOT_LOGGED = {
    "prompt": "texts of prompts",
    "reply": "texts of replies",
    "parameters": "parameters of tool calls",
    "result": "results of tool calls",
}
STEP_COLUMNS = (
    "event_time event_name source_event_name tool_use_id query_source subagent tool_name success "
    "exit_code decision error_type error duration_ms content tool_parameters attributes"
).split()
"""Columns of events that the steps of a session are made of."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session as text.

    Attributes:
        text: Steps in order with times since the beginning; redacted, not yet fenced. What is not
            logged text ends with ``SEAL``.
        task: The first prompt, or a statement that it was not logged; redacted.
        tokens: Estimated tokens of text and task in the judge's prompt.
        truncated: Whether something was removed to fit; the text says what and where.
        injection_suspected: Whether a text addresses a judge or imitates a verdict.
        redactions: Number of secrets removed, by kind.
        content_level: ``full``, ``prompts`` or ``none``.
    """

    text: str
    task: str
    tokens: int
    truncated: bool
    injection_suspected: bool
    redactions: dict[str, int]
    content_level: str


def build_transcript(
    events: pl.DataFrame,
    content_level: str,
    max_tokens: int,
    redactor: Callable[[str], Redacted],
) -> Transcript:
    """Build the transcript of a session window.

    It does not reveal model, agent or masque of the session, except by the words of the agent and
    the names of its tools.

    Args:
        events: Rows of ``agent_events`` of one window, in any order.
        content_level: Column of ``agent_sessions``.
        max_tokens: Limit on the estimated tokens of text and task; the task has at most a quarter.
        redactor: Removes secrets from a text; called before anything is truncated.
    """
    ordered = events.sort("event_time", "sequence", "event_id", nulls_last=True)
    steps = session_steps(ordered.select(STEP_COLUMNS).to_dicts())
    lengths = [len(part.text) for step in steps for part in step.parts]
    share = MAX_CHARACTERS // max(1, len(lengths))
    sanitizer = TextSanitizer(
        redactor,
        ordered["model"].drop_nulls().unique().to_list(),
        _MAX_TEXT_LENGTH if sum(lengths) <= MAX_CHARACTERS else min(_MAX_TEXT_LENGTH, share),
    )
    first = next((step for step in steps if step.kind == "prompt"), None)
    whole_task = _task(first, sanitizer)
    task = cut_to_tokens(whole_task, max_tokens // 4)
    not_logged = _never_logged(steps)
    prompt_steps = [
        _prompt_step(step, sanitizer, not_logged, task if step is first and first.parts else None)
        for step in steps
    ]
    heading = _heading(steps, not_logged)
    result = truncate(heading, prompt_steps, max_tokens - total_tokens([task]))
    return Transcript(
        text=result.text,
        task=task,
        tokens=result.tokens + total_tokens([task]),
        truncated=result.truncated or sanitizer.has_cut or task != whole_task,
        injection_suspected=sanitizer.has_suspicious,
        redactions=dict(sorted(sanitizer.redactions.items())),
        content_level=content_level,
    )


def _task(first: SessionStep | None, sanitizer: TextSanitizer) -> str:
    if first is None:
        return f"No prompt was recorded.{SEAL}"
    if not first.parts:
        return f"The first prompt was recorded without its text.{SEAL}"
    return sanitizer.text(first.parts[0].text)


def _prompt_step(
    step: SessionStep, sanitizer: TextSanitizer, not_logged: Sequence[str], task: str | None
) -> PromptStep:
    """Return a step for the prompt.

    Args:
        step: A step of the session.
        sanitizer: Sanitizer of its texts.
        not_logged: Keys of ``_NOT_LOGGED`` that the heading states for all steps.
        task: Text of the step if it is the task, which the prompt quotes before the session.
    """
    if task is None:
        parts = tuple(
            PromptPart(
                part.label,
                sanitizer.parameters(part.text)
                if part.is_json
                else sanitizer.text(part.text, part.label),
                part.is_tool_text,
            )
            for part in step.parts
        )
    elif len(task) <= _MAX_REPEATED_PROMPT:
        parts = (PromptPart("", task, is_tool_text=False),)
    else:
        beginning = task[: _MAX_REPEATED_PROMPT // 2]
        text = f"{beginning}\n[... it goes on as quoted above, where the session began ...{SEAL}]"
        parts = (PromptPart("", text, is_tool_text=False),)
    note = ", ".join(each for each in step.not_logged if each not in not_logged)
    return PromptStep(
        _clock(step.seconds),
        sanitizer.line(step.title),
        parts,
        f"not logged: {note}" if note else "",
        stays=step.is_failure or task is not None,
    )


def _heading(steps: Sequence[SessionStep], not_logged: Iterable[str]) -> str:
    kinds = Counter(step.kind for step in steps)
    tools = [step for step in steps if step.kind == "tool"]
    refused = sum("REFUSED" in step.title for step in tools)
    failed = sum(step.is_failure for step in tools) - refused
    length = _clock(steps[-1].seconds) if steps else _clock(0)
    counts = (
        f"IN ALL{SEAL}: {length} minutes:seconds, prompts {kinds['prompt']}, "
        f"replies {kinds['reply']}, tool calls {len(tools)} (failed {failed}, refused {refused}), "
        f"other failures {kinds['failure']}"
    )
    names = [_NOT_LOGGED[each] for each in not_logged]
    return f"{counts}\nNOT LOGGED IN ANY STEP{SEAL}: {', '.join(names)}" if names else counts


def _never_logged(steps: Sequence[SessionStep]) -> list[str]:
    """Return the keys of ``_NOT_LOGGED`` whose texts no step has."""
    logged = {step.kind for step in steps if step.parts}
    tools = [step for step in steps if step.kind == "tool"]
    logged |= {part.label for step in tools for part in step.parts}
    if not tools:
        logged |= {"parameters", "result"}
    return [each for each in _NOT_LOGGED if each not in logged]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
