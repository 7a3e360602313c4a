"""The transcript of one session window: what a judge is shown of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.judging.domain.prompt.redaction import Redacted
from evaluation_pipelines.judging.domain.prompt.session_steps import SessionStep, session_steps
from evaluation_pipelines.judging.domain.prompt.shown_text import TextSanitizer, middle_cut
from evaluation_pipelines.judging.domain.prompt.truncate import (
    PromptPart,
    PromptStep,
    total_cost,
    truncate,
)

CHARACTERS_LOOKED_AT = 10_000_000
"""A session with more text than this loses the middle of its texts before they are searched."""

_LONGEST_TEXT = 200_000
_LONGEST_REPEATED_PROMPT = 2_000
_SILENT = {
    "prompt": "texts of prompts",
    "reply": "texts of replies",
    "parameters": "parameters of tool calls",
    "result": "results of tool calls",
}
_COLUMNS = (
    "event_time event_name source_event_name tool_use_id query_source subagent tool_name success "
    "exit_code decision error_type error duration_ms content tool_parameters attributes"
).split()


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session as text.

    Attributes:
        text: What happened, in order, with relative times; redacted, not yet fenced.
        task: The first prompt, or a plain statement that it was not logged; redacted.
        tokens: Estimate of what text and task cost in the judge's prompt.
        truncated: Whether something was cut to fit; the text says what and where.
        injection_suspected: Whether something addresses a judge or imitates its form.
        redactions: Kind of secret -> how many were taken out.
        content_level: full, prompts or none.
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
    """What a judge is shown of a session window.

    Nothing in it says which model, agent or masque made the session, beyond what the agent itself
    wrote and the names of its tools.

    Args:
        events: Rows of ``agent_events`` of one window, in any order.
        content_level: That of ``agent_sessions``.
        max_tokens: What text and task may cost together (estimated); a quarter at most is the task.
        redactor: Takes secrets out of a text; called before anything is cut.
    """
    ordered = events.sort("event_time", "sequence", "event_id", nulls_last=True)
    steps = session_steps(ordered.select(_COLUMNS).to_dicts())
    sizes = [len(part.text) for step in steps for part in step.parts]
    share = CHARACTERS_LOOKED_AT // max(1, len(sizes))
    shower = TextSanitizer(
        redactor,
        ordered["model"].drop_nulls().unique().to_list(),
        _LONGEST_TEXT if sum(sizes) <= CHARACTERS_LOOKED_AT else min(_LONGEST_TEXT, share),
    )
    first = next((step for step in steps if step.kind == "prompt"), None)
    whole_task = _task(first, shower)
    task = _at_most(whole_task, max_tokens // 4)
    silent = _silent(steps)
    shown = [
        _shown(step, shower, silent, task if step is first and first.parts else None)
        for step in steps
    ]
    fitted = truncate(_heading(steps, silent), shown, max_tokens - total_cost([task]))
    return Transcript(
        text=fitted.text,
        task=task,
        tokens=fitted.tokens + total_cost([task]),
        truncated=fitted.truncated or shower.has_cut or task != whole_task,
        injection_suspected=shower.has_suspicious,
        redactions=dict(sorted(shower.redactions.items())),
        content_level=content_level,
    )


def _task(first: SessionStep | None, shower: TextSanitizer) -> str:
    if first is None:
        return "No prompt was recorded."
    if not first.parts:
        return "The first prompt was recorded without its text."
    return shower.text(first.parts[0].text)


def _at_most(text: str, max_tokens: int) -> str:
    size = len(text)
    while size > 1 and total_cost([text]) > max_tokens:
        size = size * 3 // 4
        text = middle_cut(text, size)
    return text


def _shown(
    step: SessionStep, shower: TextSanitizer, silent: Sequence[str], task: str | None
) -> PromptStep:
    """The step as the judge sees it.

    Args:
        step: One of the session.
        shower: Makes its texts fit to be seen.
        silent: What the heading already says of all steps.
        task: The text of the step, when it is the task that stands above the session.
    """
    if task is None:
        parts = tuple(
            PromptPart(
                part.label,
                shower.parameters(part.text) if part.is_json else shower.text(part.text),
                part.is_tool_text,
            )
            for part in step.parts
        )
    elif len(task) <= _LONGEST_REPEATED_PROMPT:
        parts = (PromptPart("", task, is_tool_text=False),)
    else:
        begin = task[: _LONGEST_REPEATED_PROMPT // 2]
        again = f"{begin}\n[... it goes on as quoted above, where the session began ...]"
        parts = (PromptPart("", again, is_tool_text=False),)
    note = ", ".join(what for what in step.not_logged if what not in silent)
    return PromptStep(
        _clock(step.seconds),
        shower.line(step.title),
        parts,
        f"not logged: {note}" if note else "",
        stays=step.is_failure or task is not None,
    )


def _heading(steps: Sequence[SessionStep], silent: Iterable[str]) -> str:
    kinds = Counter(step.kind for step in steps)
    tools = [step for step in steps if step.kind == "tool"]
    refused = sum("REFUSED" in step.title for step in tools)
    failed = sum(step.is_failure for step in tools) - refused
    length = _clock(steps[-1].seconds) if steps else _clock(0)
    counts = (
        f"IN ALL: {length} minutes:seconds, prompts {kinds['prompt']}, replies {kinds['reply']}, "
        f"tool calls {len(tools)} (failed {failed}, refused {refused}), other failures "
        f"{kinds['failure']}"
    )
    names = [_SILENT[each] for each in silent]
    return f"{counts}\nNOT LOGGED IN ANY STEP: {', '.join(names)}" if names else counts


def _silent(steps: Sequence[SessionStep]) -> list[str]:
    """What the whole session is without: keys of ``_SILENT``."""
    there = {step.kind for step in steps if step.parts}
    tools = [step for step in steps if step.kind == "tool"]
    there |= {part.label for step in tools for part in step.parts}
    if not tools:
        there |= {"parameters", "result"}
    return [each for each in _SILENT if each not in there]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
