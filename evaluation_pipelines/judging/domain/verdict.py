"""Parse the verdict of a judge by strict rules.

A number is accepted only in the place where the requested form has it.
"""

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
"""A total that differs by more than this from the sum of the criteria is inconsistent."""

_LINE_ENDS = re.compile(r"\r\n|[\n\r]")
_TOTAL = re.compile(r"\W*([0-9]{1,3})\W*")
# Signs, slashes and decimal points of several scripts; dashes are recognized by their category.
_NOT_WHOLE = frozenset("+/\\.,\u2212\u00b1\u2213\u2044\u2215\u00f7\u066b\u066c\u00b7")
_TAGS = re.compile(r"\W*failure[ _]tags[\s*`]*:(.*)", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;]")
_NO_TAG = frozenset(("", "none", "no", "n_a", "null"))
_MAX_UNKNOWN_TAGS = 20
_MAX_TAG_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgment in the requested form.

    Attributes:
        total: Total from 0 to 100, as the judge wrote it.
        criteria: Points by criterion id.
        failure_tags: Tags of ``FAILURE_TAGS``; ``()`` if the judge names none, ``None`` if there is
            no tags line or it has only unknown tags.
        analysis: The message without the line of the total.
        inconsistent_total: Whether the total differs by more than 5 from the sum of the criteria,
            on a scale of 100.
        unknown_tags: Other tags in the tags line; at most 20, of at most 60 characters each.
    """

    total: int
    criteria: dict[str, int]
    failure_tags: tuple[str, ...] | None
    analysis: str
    inconsistent_total: bool
    unknown_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a message is not a verdict; the reminder quotes it to the judge."""

    reason: str


def parse_verdict(text: str, criteria: Sequence[RubricCriterion]) -> Verdict | Problem:
    """Parse a message of the judge.

    The total is the last line that is not empty, if it contains one whole number from 0 to 100 and
    no other letter, digit, sign, slash or decimal point. Each criterion has a line
    ``<id>: <points>/<maximum points>``; identical lines count once.
    """
    lines = _LINE_ENDS.split(text)
    last = _last_filled(lines)
    total = _total(lines[last]) if last is not None else None
    if last is None or total is None:
        return Problem(f"the last line does not hold a whole number from 0 to {TOTAL_POINTS} alone")
    points: dict[str, int] = {}
    for criterion in criteria:
        parsed = _points(lines, criterion)
        if isinstance(parsed, Problem):
            return parsed
        points[criterion.id] = parsed
    tags, unknown = _tags(lines)
    analysis = "\n".join(lines[:last]).strip()
    return Verdict(
        total, points, tags, analysis, _is_inconsistent(total, points, criteria), unknown
    )


def analysis_of(text: str) -> str:
    """Return a message without its last line if that is a total."""
    lines = _LINE_ENDS.split(text)
    last = _last_filled(lines)
    if last is not None and _total(lines[last]) is not None:
        del lines[last]
    return "\n".join(lines).strip()


def _last_filled(lines: Sequence[str]) -> int | None:
    return next((n for n in range(len(lines) - 1, -1, -1) if lines[n].strip()), None)


def _total(line: str) -> int | None:
    found = _TOTAL.fullmatch(line)
    if found is None or any(map(_changes_number, line)):
        return None
    total = int(found[1])
    return total if total <= TOTAL_POINTS else None


def _changes_number(character: str) -> bool:
    """Return whether a character next to digits may make them another number."""
    plain = unicodedata.normalize("NFKC", character)
    return any(each in _NOT_WHOLE or unicodedata.category(each) == "Pd" for each in plain)


def _points(lines: Sequence[str], criterion: RubricCriterion) -> int | Problem:
    pattern = re.compile(
        rf"\W*{re.escape(criterion.id)}[\s*`]*:[\s*`]*([0-9]{{1,3}})[\s*`]*/[\s*`]*([0-9]{{1,3}})\W*",
        re.IGNORECASE,
    )
    # Some models escape the underscore as in Markdown.
    found = [match for line in lines if (match := pattern.fullmatch(line.replace("\\_", "_")))]
    values = {(int(match[1]), int(match[2])) for match in found}
    form = f"{criterion.id}: <points>/{criterion.points}"
    if not values:
        return Problem(f"there is no line `{form}`")
    if len(values) > 1:
        return Problem(f"lines of {criterion.id} contradict each other; give `{form}` once")
    points, maximum = values.pop()
    if maximum != criterion.points or points > criterion.points:
        return Problem(f"{criterion.id} is out of range; the line is `{form}`")
    return points


def _is_inconsistent(
    total: int, points: dict[str, int], criteria: Sequence[RubricCriterion]
) -> bool:
    maximum = sum(each.points for each in criteria)
    # |total - 100 * sum / maximum| > 5, in whole numbers; false without criteria
    difference = abs(total * maximum - TOTAL_POINTS * sum(points.values()))
    return difference > LARGEST_DIFFERENCE * maximum


def _tags(lines: Sequence[str]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return known and unknown tags of the last tags line.

    The known tags are ``None`` if there is no tags line or it has only unknown tags.
    """
    tag_lists = [match[1] for line in lines if (match := _TAGS.fullmatch(line.replace("\\_", "_")))]
    if not tag_lists:
        return None, ()
    names = [_tag_name(each) for each in _SEPARATOR.split(tag_lists[-1])]
    named = list(dict.fromkeys(each for each in names if each not in _NO_TAG))
    known = tuple(tag for tag in FAILURE_TAGS if tag in named)
    unknown = tuple(each[:_MAX_TAG_LENGTH] for each in named if each not in FAILURE_TAGS)
    return (None if unknown and not known else known), unknown[:_MAX_UNKNOWN_TAGS]


def _tag_name(written: str) -> str:
    return re.sub(r"\W+", "_", written).strip("_").lower()
