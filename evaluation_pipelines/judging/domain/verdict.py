"""What a judge's message says, by strict rules: a number is read where the form has it, or not."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation_pipelines.judging.domain.prompt.rubric import (
    FAILURE_TAGS,
    TOTAL_POINTS,
    RubricCriterion,
)

LARGEST_DIFFERENCE = 5
"""A total further than this from what the criteria add up to is inconsistent."""

_LINE_ENDS = re.compile(r"\r\n|[\n\r]")
_TOTAL = re.compile(r"\W*([0-9]{1,3})\W*")
# Signs, slashes and decimal points of several scripts; dashes are found by their category.
_NOT_WHOLE = frozenset("+/\\.,\u2212\u00b1\u2213\u2044\u2215\u00f7\u066b\u066c\u00b7")
_TAGS = re.compile(r"\W*failure[ _]tags[\s*`]*:(.*)", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;]")
_NO_TAG = frozenset(("", "none", "no", "n_a", "null"))
_MOST_UNKNOWN_TAGS = 20
_LONGEST_TAG = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement that keeps to the form.

    Attributes:
        total: 0 to 100, as the judge gave it.
        criteria: Criterion id -> points.
        failure_tags: Those of our list; () when the judge says there are none, None when it gave
            no tags line or only tags that nobody knows.
        analysis: The message without the line of the total.
        inconsistent_total: The total is more than 5 away from what the criteria add up to,
            on a scale of 100.
        unknown_tags: What else stood in the tags line.
    """

    total: int
    criteria: dict[str, int]
    failure_tags: tuple[str, ...] | None
    analysis: str
    inconsistent_total: bool
    unknown_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a message is no verdict, in words that can be said to the judge."""

    reason: str


def parse_verdict(text: str, criteria: Sequence[RubricCriterion]) -> Verdict | Problem:
    """Read a judge's message.

    The total is the last line that is not empty, when it holds one whole number from 0 to 100 and
    otherwise neither letter, digit, sign, slash nor decimal point. Each criterion has a line
    ``<id>: <points>/<its points>``; several lines that say the same are one.
    """
    lines = _LINE_ENDS.split(text)
    last = _last_filled(lines)
    total = _total(lines[last]) if last is not None else None
    if last is None or total is None:
        return Problem(f"the last line does not hold a whole number from 0 to {TOTAL_POINTS} alone")
    points: dict[str, int] = {}
    for criterion in criteria:
        given = _points(lines, criterion)
        if isinstance(given, Problem):
            return given
        points[criterion.id] = given
    tags, unknown = _tags(lines)
    analysis = "\n".join([*lines[:last], *lines[last + 1 :]]).strip()
    return Verdict(
        total, points, tags, analysis, _is_inconsistent(total, points, criteria), unknown
    )


def analysis_of(text: str) -> str:
    """A message without its last line, if that is a total."""
    lines = _LINE_ENDS.split(text)
    last = _last_filled(lines)
    if last is not None and _total(lines[last]) is not None:
        del lines[last]
    return "\n".join(lines).strip()


def _last_filled(lines: Sequence[str]) -> int | None:
    return next((n for n in range(len(lines) - 1, -1, -1) if lines[n].strip()), None)


def _total(line: str) -> int | None:
    found = _TOTAL.fullmatch(line)
    if found is None or any(map(_spoils, line)):
        return None
    total = int(found[1])
    return total if total <= TOTAL_POINTS else None


def _spoils(letter: str) -> bool:
    """Whether a letter beside the digits makes another number of them, or may."""
    plain = unicodedata.normalize("NFKC", letter)
    return any(each in _NOT_WHOLE or unicodedata.category(each) == "Pd" for each in plain)


def _points(lines: Sequence[str], criterion: RubricCriterion) -> int | Problem:
    line_form = re.compile(
        rf"\W*{re.escape(criterion.id)}[\s*`]*:[\s*`]*([0-9]{{1,3}})[\s*`]*/[\s*`]*([0-9]{{1,3}})\W*",
        re.IGNORECASE,
    )
    # Some models escape the underscore, as if their message were rendered.
    found = [match for line in lines if (match := line_form.fullmatch(line.replace("\\_", "_")))]
    given = {(int(match[1]), int(match[2])) for match in found}
    wanted = f"{criterion.id}: <points>/{criterion.points}"
    if not given:
        return Problem(f"there is no line `{wanted}`")
    if len(given) > 1:
        return Problem(f"lines of {criterion.id} contradict each other; give `{wanted}` once")
    points, of = given.pop()
    if of != criterion.points or points > criterion.points:
        return Problem(f"{criterion.id} is out of range; the line is `{wanted}`")
    return points


def _is_inconsistent(
    total: int, points: dict[str, int], criteria: Sequence[RubricCriterion]
) -> bool:
    most = sum(each.points for each in criteria)
    if most == 0:
        return False
    # |total - 100 * sum / most| > 5, in whole numbers
    return abs(total * most - TOTAL_POINTS * sum(points.values())) > LARGEST_DIFFERENCE * most


def _tags(lines: Sequence[str]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Known and unknown tags of the last tags line; None where no tag is known."""
    written = [match[1] for line in lines if (match := _TAGS.fullmatch(line.replace("\\_", "_")))]
    if not written:
        return None, ()
    names = [_tag_name(each) for each in _SEPARATOR.split(written[-1])]
    named = list(dict.fromkeys(each for each in names if each not in _NO_TAG))
    known = tuple(tag for tag in FAILURE_TAGS if tag in named)
    unknown = tuple(each[:_LONGEST_TAG] for each in named if each not in FAILURE_TAGS)
    return (None if unknown and not known else known), unknown[:_MOST_UNKNOWN_TAGS]


def _tag_name(written: str) -> str:
    return re.sub(r"\W+", "_", written).strip("_").lower()
