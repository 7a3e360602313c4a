"""Transcript of one session window for the judge, cut to the token limit of its prompt.

Text is removed in this order, and no more than necessary: the middle of long parameters and
results; whole steps, oldest first, except the first prompt, failures and the last steps; the middle
of all long texts; finally the middle of the complete text. A note marks the place of each cut.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from evaluation_pipelines.judging.domain.prompt.fence import SEAL
from evaluation_pipelines.judging.domain.prompt.messages import estimated_tokens
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted
from evaluation_pipelines.judging.domain.prompt.sanitizer import TextSanitizer, cut_note, ends_of
from evaluation_pipelines.judging.domain.prompt.session_steps import (
    SessionStep,
    offered_tools,
    session_steps,
)

TOOL_TEXT_SIZES = (16_000, 8_000, 4_000, 2_000, 1_000, 500)
"""Maximum characters of parameters and results, tried in this order."""

ALL_TEXT_SIZES = (4_000, 2_000, 1_000, 500, 200)
"""Maximum characters of every text, tried after steps were omitted."""

LAST_STEPS = 12
"""Number of steps at the end that are never omitted."""

_INDENT = "  "
# Tokens of the line that replaces omitted steps.
_GAP_TOKENS = 30
# Tokens of the random word in place of a seal, in addition to those of the seal.
_SEAL_TOKENS = 2


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A sanitized text of a step."""

    label: str
    text: str
    is_tool_text: bool


@dataclass(frozen=True, slots=True)
class PromptStep:
    """A sanitized step.

    Attributes:
        clock: Time since the beginning of the session.
        title: Event in one line.
        parts: Texts of the step.
        note: Names of the texts that were not logged; may be empty.
        stays: Whether the step is never omitted.
    """

    clock: str
    title: str
    parts: tuple[PromptPart, ...]
    note: str
    stays: bool


@dataclass(frozen=True, slots=True)
class TruncatedText:
    """A text, its estimated tokens, and whether anything was removed."""

    text: str
    tokens: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """A rendered step with its tokens; ``step`` is ``None`` for a note about omitted steps."""

    step: PromptStep | None
    text: str
    tokens: int


def truncate(heading: str, steps: Sequence[PromptStep], max_tokens: int) -> TruncatedText:
    """Return heading and steps as a text of at most ``max_tokens`` estimated tokens."""
    budget = max_tokens - _tokens(heading)
    complete = [_line(step) for step in steps]
    lines = complete
    for size in TOOL_TEXT_SIZES:
        if _sum(lines) <= budget:
            break
        lines = [_shortened(line, size, tool_texts_only=True) for line in complete]
    lines = _without_oldest(lines, budget)
    for size in ALL_TEXT_SIZES:
        if _sum(lines) <= budget:
            break
        lines = [_shortened(line, size, tool_texts_only=False) for line in lines]
    text = "\n".join([heading, *(line.text for line in lines)])
    # With very many failures even the steps that stay exceed the limit.
    is_too_long = _tokens(text) > max_tokens
    if is_too_long:
        text = cut_to_tokens(text, max_tokens)
    return TruncatedText(text, _tokens(text), is_too_long or lines != complete)


def cut_to_tokens(text: str, max_tokens: int) -> str:
    """Remove the middle of ``text`` until it has at most ``max_tokens`` estimated tokens."""
    size = len(text)
    while size > 1 and _tokens(text) > max_tokens:
        size = size * 3 // 4
        text = cut_middle(text, size)
    return text


def cut_middle(text: str, max_length: int) -> str:
    """Return beginning and end of ``text``, with a line between them that counts what is missing.

    The cuts are made at spaces if there are any nearby, so that no part of a secret or a name is
    left. The line in between comes on top of ``max_length``.
    """
    if len(text) <= max_length:
        return text
    start, end = ends_of(text, max_length)
    missing = len(text) - len(start) - len(end)
    return f"{start}{cut_note(missing)}{end}"


def total_tokens(texts: Iterable[str]) -> int:
    """Return the estimated tokens of several texts behind the bars of the fence."""
    return sum(map(_tokens, texts))


def _tokens(text: str) -> int:
    """Return the estimated tokens of a text, with one for the bar before each line."""
    return estimated_tokens(text) + text.count("\n") + 1 + text.count(SEAL) * _SEAL_TOKENS


def _line(step: PromptStep) -> _Line:
    text = _rendered(step)
    return _Line(step, text, _tokens(text))


def _sum(lines: Iterable[_Line]) -> int:
    return sum(line.tokens for line in lines)


def _without_oldest(lines: Sequence[_Line], budget: int) -> list[_Line]:
    """Omit the oldest steps until the rest fits; a note replaces each run of omitted steps."""
    surplus = _sum(lines) - budget
    kept: list[_Line] = []
    gap: list[PromptStep] = []
    for index, line in enumerate(lines):
        is_last = index >= len(lines) - LAST_STEPS
        if surplus > 0 and line.step is not None and not line.step.stays and not is_last:
            surplus -= line.tokens - (0 if gap else _GAP_TOKENS)
            gap.append(line.step)
            continue
        if gap:
            kept.append(_gap_line(gap))
            gap = []
        kept.append(line)
    return kept


def _gap_line(steps: Sequence[PromptStep]) -> _Line:
    first, last = steps[0].clock, steps[-1].clock
    text = f"[... {len(steps)} steps from {first} to {last} left out here ...{SEAL}]"
    return _Line(None, text, _tokens(text))


def _shortened(line: _Line, size: int, *, tool_texts_only: bool) -> _Line:
    """Cut the texts of a line that are longer than ``size``."""
    if line.step is None or all(len(part.text) <= size for part in line.step.parts):
        return line
    parts = tuple(
        replace(part, text=cut_middle(part.text, size))
        if part.is_tool_text or not tool_texts_only
        else part
        for part in line.step.parts
    )
    return _line(replace(line.step, parts=parts))


def _rendered(step: PromptStep) -> str:
    lines = [f"[{step.clock}{SEAL}] {step.title}"]
    for part in step.parts:
        indent = _INDENT
        if part.label:
            lines.append(f"{_INDENT}{part.label}{SEAL}:")
            indent = _INDENT * 2
        lines += [f"{indent}{line}" for line in part.text.split("\n")]
    if step.note:
        lines.append(f"{_INDENT}{step.note}{SEAL}")
    return "\n".join(lines)


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
    rows = ordered.select(STEP_COLUMNS).to_dicts()
    steps = session_steps(rows)
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
    heading = _heading(steps, not_logged, [sanitizer.line(tool) for tool in offered_tools(rows)])
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
    note = ", ".join(kind for kind in step.not_logged if kind not in not_logged)
    return PromptStep(
        _clock(step.seconds),
        sanitizer.line(step.title),
        parts,
        f"not logged: {note}" if note else "",
        stays=step.is_failure or task is not None,
    )


def _heading(
    steps: Sequence[SessionStep], not_logged: Iterable[str], offered: Sequence[str]
) -> str:
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
    lists = {
        "NOT LOGGED IN ANY STEP": [_NOT_LOGGED[kind] for kind in not_logged],
        "TOOLS THAT THE AGENT COULD USE": offered,
    }
    lines = [f"{name}{SEAL}: {', '.join(sequence)}" for name, sequence in lists.items() if sequence]
    return "\n".join([counts, *lines])


def _never_logged(steps: Sequence[SessionStep]) -> list[str]:
    """Return the keys of ``_NOT_LOGGED`` whose texts no step has."""
    logged = {step.kind for step in steps if step.parts}
    tools = [step for step in steps if step.kind == "tool"]
    logged |= {part.label for step in tools for part in step.parts}
    if not tools:
        logged |= {"parameters", "result"}
    return [kind for kind in _NOT_LOGGED if kind not in logged]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
