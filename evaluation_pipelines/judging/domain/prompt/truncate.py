"""Cuts a session to the tokens that a judge's prompt has for it, the least telling first.

In this order, and no further than needed: the middle of long parameters and results; whole steps
from the oldest on, except the first prompt, failures and the last steps; the middle of everything
that is long; at last the middle of the text as a whole. Each cut is told in its place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evaluation_pipelines.judging.domain.prompt.shown_text import middle_cut
from evaluation_pipelines.judging.domain.prompt.tokens import estimated_tokens

TOOL_TEXT_SIZES = (16_000, 8_000, 4_000, 2_000, 1_000, 500)
"""To how many characters long parameters and results are cut, tried in this order."""

ALL_TEXT_SIZES = (4_000, 2_000, 1_000, 500, 200)
"""The same of all texts, when leaving steps out was not enough."""

LAST_STEPS = 12
"""So many steps at the end stay."""

_INDENT = "  "
# What the line costs that tells of steps left out.
_GAP_COST = 30


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A text of a step, fit to be seen."""

    label: str
    text: str
    is_tool_text: bool


@dataclass(frozen=True, slots=True)
class PromptStep:
    """A step, fit to be seen.

    Attributes:
        clock: When it happened.
        title: What happened.
        parts: Its texts.
        note: What was not logged.
        stays: It is never left out.
    """

    clock: str
    title: str
    parts: tuple[PromptPart, ...]
    note: str
    stays: bool


@dataclass(frozen=True, slots=True)
class TruncatedText:
    """The text, what it costs, and whether anything was cut."""

    text: str
    tokens: int
    truncated: bool


def truncate(heading: str, steps: Sequence[PromptStep], max_tokens: int) -> TruncatedText:
    """The heading and the steps as a text of at most that many (estimated) tokens."""
    budget = max_tokens - _cost(heading)
    whole = [_line(step) for step in steps]
    lines = whole
    for size in TOOL_TEXT_SIZES:
        if _sum(lines) <= budget:
            break
        lines = [_cut(line, size, tool_texts_only=True) for line in whole]
    lines = _without_oldest(lines, budget)
    for size in ALL_TEXT_SIZES:
        if _sum(lines) <= budget:
            break
        lines = [_cut(line, size, tool_texts_only=False) for line in lines]
    text = "\n".join([heading, *(line.text for line in lines)])
    is_too_long = _cost(text) > max_tokens
    if is_too_long:
        text = _squeezed(text, max_tokens)
    return TruncatedText(text, _cost(text), is_too_long or lines != whole)


@dataclass(frozen=True, slots=True)
class _Line:
    """A step as text with its cost; no step where others were left out."""

    step: PromptStep | None
    text: str
    cost: int


def _line(step: PromptStep) -> _Line:
    text = _rendered(step)
    return _Line(step, text, _cost(text))


def _sum(lines: Iterable[_Line]) -> int:
    return sum(line.cost for line in lines)


def _without_oldest(lines: Sequence[_Line], budget: int) -> list[_Line]:
    """The lines that stay, with one in place of each stretch of those that do not."""
    surplus = _sum(lines) - budget
    kept: list[_Line] = []
    gap: list[PromptStep] = []
    for place, line in enumerate(lines):
        is_last = place >= len(lines) - LAST_STEPS
        if surplus > 0 and line.step is not None and not line.step.stays and not is_last:
            surplus -= line.cost - (0 if gap else _GAP_COST)
            gap.append(line.step)
            continue
        if gap:
            kept.append(_gap(gap))
            gap = []
        kept.append(line)
    return kept


def _gap(steps: Sequence[PromptStep]) -> _Line:
    first, last = steps[0].clock, steps[-1].clock
    text = f"[... {len(steps)} steps from {first} to {last} left out here ...]"
    return _Line(None, text, _cost(text))


def _cut(line: _Line, size: int, *, tool_texts_only: bool) -> _Line:
    """The line with its long texts cut; the same one where none is that long."""
    if line.step is None or all(len(part.text) <= size for part in line.step.parts):
        return line
    parts = tuple(
        replace(part, text=middle_cut(part.text, size))
        if part.is_tool_text or not tool_texts_only
        else part
        for part in line.step.parts
    )
    return _line(replace(line.step, parts=parts))


def _squeezed(text: str, max_tokens: int) -> str:
    """The last resort: so many failures that even what must stay is too much."""
    size = len(text)
    while size > 1 and _cost(text) > max_tokens:
        size = size * 3 // 4
        text = middle_cut(text, size)
    return text


def _rendered(step: PromptStep) -> str:
    lines = [f"[{step.clock}] {step.title}"]
    for part in step.parts:
        indent = _INDENT
        if part.label:
            lines.append(f"{_INDENT}{part.label}:")
            indent = _INDENT * 2
        lines += [f"{indent}{line}" for line in part.text.split("\n")]
    if step.note:
        lines.append(f"{_INDENT}{step.note}")
    return "\n".join(lines)


def _cost(text: str) -> int:
    """Tokens of a text with the bar that the fence puts before each of its lines."""
    return estimated_tokens(text) + text.count("\n") + 1


def total_cost(texts: Iterable[str]) -> int:
    """Tokens of several texts behind bars."""
    return sum(map(_cost, texts))
