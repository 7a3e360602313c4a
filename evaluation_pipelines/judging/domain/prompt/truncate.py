"""Truncate a session to the token limit of the judge's prompt.

Text is removed in this order, and no more than necessary: the middle of long parameters and
results; whole steps, oldest first, except the first prompt, failures and the last steps; the middle
of all long texts; finally the middle of the complete text. A note marks the place of each cut.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evaluation_pipelines.judging.domain.prompt.characters import SEAL
from evaluation_pipelines.judging.domain.prompt.tokens import estimated_tokens

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
# A cut moves at most this many characters to reach a space.
_MAX_SHIFT = 400


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


def cut_note(missing: int) -> str:
    """Return the line in place of ``missing`` characters."""
    return f"\n[... {missing} characters left out here ...{SEAL}]\n"


def ends_of(text: str, max_length: int) -> tuple[str, str]:
    """Return beginning and end of a text that is longer than ``max_length``, cut at spaces."""
    half = max_length // 2
    start, end = text[:half], text[len(text) - (max_length - half) :]
    start = start[: _last_space(start)]
    end = end[len(end) - _last_space(end[::-1]) :]
    return start, end


def total_tokens(texts: Iterable[str]) -> int:
    """Return the estimated tokens of several texts behind the bars of the fence."""
    return sum(map(_tokens, texts))


def _tokens(text: str) -> int:
    """Return the estimated tokens of a text, with one for the bar before each line."""
    return estimated_tokens(text) + text.count("\n") + 1 + text.count(SEAL) * _SEAL_TOKENS


def _last_space(text: str) -> int:
    """Return the position of the last space; the length if it is far from the end."""
    nearest = max(0, len(text) - _MAX_SHIFT)
    for position in range(len(text) - 1, nearest - 1, -1):
        if text[position].isspace():
            return position
    return len(text)


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
