"""Parse the verdict of a judge by strict rules.

A number is accepted only in the place where the requested form has it.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluation_pipelines.judging.domain.prompt.rubric import (
    FAILURE_TAGS,
    TOTAL_POINTS,
    RubricCriterion,
)

LARGEST_DIFFERENCE = 5
"""A total that differs by more than this from the sum of the criteria is inconsistent."""

MIN_ANALYSIS_WORDS = 200
"""Length of the analysis that the rubrics ask for; a shorter one is flagged."""

_LINE_ENDS = re.compile(r"\r\n|[\n\r]")
_TOTAL = re.compile(r"\W*([0-9]{1,3})\W*")
_NAMED_TOTAL = re.compile(r"\W*total(?:[\s_]+score)?[\s*`_]*:([^:]*)", re.IGNORECASE)
# Signs, slashes and decimal points of several scripts; dashes are recognized by their category.
_NOT_WHOLE = frozenset("+/\\.,\u2212\u00b1\u2213\u2044\u2215\u00f7\u066b\u066c\u00b7")
_TAGS = re.compile(r"\W*failure[ _]tags[\s*`]*:(.*)", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;]")
_NO_TAG = frozenset(("", "none", "no", "n_a", "null"))
_MAX_UNKNOWN_TAGS = 20
_MAX_TAG_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgment with its numbers.

    Attributes:
        total: Total from 0 to 100, as the judge wrote it.
        criteria: Points by criterion id; ``None`` for a criterion without a valid line.
        failure_tags: Tags of ``FAILURE_TAGS``; ``()`` if the judge names none, ``None`` if there is
            no tags line or it has only unknown tags.
        analysis: The message without the line of the total.
        inconsistent_total: Whether the total differs by more than 5 from the sum of the criteria,
            on a scale of 100.
        unknown_tags: Other tags in the tags line; at most 20, of at most 60 characters each.
        incomplete_criteria: Whether a criterion has no points.
        short_analysis: Whether the analysis has fewer than 200 words.
        numbers_from_reminder: Whether a number comes from the answer to a reminder.
    """

    total: int
    criteria: dict[str, int | None]
    failure_tags: tuple[str, ...] | None
    analysis: str
    inconsistent_total: bool
    unknown_tags: tuple[str, ...] = ()
    incomplete_criteria: bool = False
    short_analysis: bool = False
    numbers_from_reminder: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a message is not a verdict, and what it lacks.

    Attributes:
        reason: A sentence; the reminder quotes it to the judge.
        lacks_total: Whether there is no valid total.
        criteria: Criteria to ask for: those without a valid line; none if the total is missing,
            which is asked for alone.
    """

    reason: str
    lacks_total: bool
    criteria: tuple[RubricCriterion, ...]


@dataclass(frozen=True, slots=True)
class _Form:
    """What one message, or two together, hold of the requested form."""

    total: int | None
    points: dict[str, int]
    problems: dict[str, str]
    tags: tuple[str, ...] | None
    unknown_tags: tuple[str, ...]


def parse_verdict(text: str, criteria: Sequence[RubricCriterion]) -> Verdict | Problem:
    """Parse a message of the judge.

    The total is the last line that is not empty, if it contains one whole number from 0 to 100 and
    no other letter, digit, sign, slash or decimal point. The same after the word "total" or "total
    score" counts if every criterion has a line above it and their sum is at most 5 away. Each
    criterion has a line ``<id>: <points>/<maximum points>``; identical lines count once.
    """
    form = _read(text, criteria)
    if form.total is None or form.problems:
        return _problem(form, criteria)
    return _verdict(form, form.total, criteria, analysis_of(text, criteria))


def parse_reminded(
    first: str, second: str, criteria: Sequence[RubricCriterion]
) -> Verdict | Problem:
    """Parse a message together with the answer to the reminder that followed it.

    A second message with the whole form counts alone, so that its numbers fit together. Otherwise
    it adds what the first one lacks. The analysis is that of the first message. Criteria without a
    valid line in both are ``None``; without a total there is no verdict.
    """
    known, answered = _read(first, criteria), _read(second, criteria)
    is_whole = answered.total is not None and not answered.problems
    form = answered if is_whole else _joined(known, answered, second, criteria)
    if form.total is None:
        return _problem(form, criteria)
    total = form.total
    if form.tags is None:
        form = replace(form, tags=known.tags, unknown_tags=known.unknown_tags)
    verdict = _verdict(form, total, criteria, analysis_of(first, criteria))
    is_added = total != known.total or form.points != known.points
    return replace(verdict, numbers_from_reminder=is_added)


def analysis_of(text: str, criteria: Sequence[RubricCriterion]) -> str:
    """Return a message without its last line if that is a total."""
    lines = _LINE_ENDS.split(text)
    last = _last_filled(lines)
    if (
        last is not None
        and _total(lines[last], _points(lines[:last], criteria)[0], criteria) is not None
    ):
        del lines[last]
    return "\n".join(lines).strip()


def _read(text: str, criteria: Sequence[RubricCriterion]) -> _Form:
    lines = _LINE_ENDS.split(text)
    points, problems = _points(lines, criteria)
    last = _last_filled(lines)
    above = _points(lines[:last], criteria)[0]
    total = None if last is None else _total(lines[last], above, criteria)
    return _Form(total, points, problems, *_tags(lines))


def _joined(
    known: _Form, answered: _Form, answer: str, criteria: Sequence[RubricCriterion]
) -> _Form:
    """Return the form of a first message, completed by the answer to a reminder."""
    points = answered.points | known.points
    problems = {
        name: answered.problems.get(name, why)
        for name, why in known.problems.items()
        if name not in points
    }
    lines = _LINE_ENDS.split(answer)
    last = _last_filled(lines)
    total = known.total
    if total is None and last is not None:
        total = _total(lines[last], points, criteria)
    return _Form(total, points, problems, answered.tags, answered.unknown_tags)


def _problem(form: _Form, criteria: Sequence[RubricCriterion]) -> Problem:
    no_total = f"the last line does not hold a whole number from 0 to {TOTAL_POINTS} alone"
    reasons = ([no_total] if form.total is None else []) + list(form.problems.values())
    lacking = tuple(each for each in criteria if each.id in form.problems)
    # Asked for lines and the total together, small models repeat the lines alone.
    return Problem(reasons[0], form.total is None, () if form.total is None else lacking)


def _verdict(
    form: _Form, total: int, criteria: Sequence[RubricCriterion], analysis: str
) -> Verdict:
    return Verdict(
        total=total,
        criteria={each.id: form.points.get(each.id) for each in criteria},
        failure_tags=form.tags,
        analysis=analysis,
        inconsistent_total=_is_far(total, form.points, criteria, or_incomplete=False),
        unknown_tags=form.unknown_tags,
        incomplete_criteria=bool(form.problems),
        short_analysis=_count_words(analysis, criteria) < MIN_ANALYSIS_WORDS,
    )


def _count_words(analysis: str, criteria: Sequence[RubricCriterion]) -> int:
    """Return the number of words between blanks, without the lines of the form."""
    patterns = [*(_line_of(each) for each in criteria), _TAGS]
    prose = [
        line
        for line in _LINE_ENDS.split(analysis)
        if not any(pattern.fullmatch(line) for pattern in patterns)
    ]
    return sum(len(line.split()) for line in prose)


def _last_filled(lines: Sequence[str]) -> int | None:
    return next((n for n in range(len(lines) - 1, -1, -1) if lines[n].strip()), None)


def _total(line: str, above: dict[str, int], criteria: Sequence[RubricCriterion]) -> int | None:
    """Return the total in a line; ``above`` are the points of the criteria above it."""
    named = _NAMED_TOTAL.fullmatch(line)
    written = line if named is None else named[1]
    found = _TOTAL.fullmatch(written)
    if found is None or any(map(_changes_number, written)):
        return None
    total = int(found[1])
    is_doubtful = named is not None and _is_far(total, above, criteria, or_incomplete=True)
    return None if total > TOTAL_POINTS or is_doubtful else total


def _changes_number(character: str) -> bool:
    """Return whether a character next to digits may make them another number."""
    plain = unicodedata.normalize("NFKC", character)
    return any(each in _NOT_WHOLE or unicodedata.category(each) == "Pd" for each in plain)


def _line_of(criterion: RubricCriterion) -> re.Pattern[str]:
    # Some models escape the underscore as in Markdown.
    name = re.escape(criterion.id).replace("_", r"\\?_")
    number = r"[\s*`]*([0-9]{1,3})[\s*`]*"
    return re.compile(rf"\W*{name}[\s*`]*:{number}/{number}\W*", re.IGNORECASE)


def _points(
    lines: Sequence[str], criteria: Sequence[RubricCriterion]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the points, and why other criteria have none, by criterion id."""
    points: dict[str, int] = {}
    problems: dict[str, str] = {}
    for criterion in criteria:
        pattern = _line_of(criterion)
        found = [match for line in lines if (match := pattern.fullmatch(line))]
        values = {(int(match[1]), int(match[2])) for match in found}
        form = f"{criterion.id}: <points>/{criterion.points}"
        if not values:
            problems[criterion.id] = f"there is no line `{form}`"
        elif len(values) > 1:
            problems[criterion.id] = (
                f"lines of {criterion.id} contradict each other; give `{form}` once"
            )
        else:
            given, maximum = values.pop()
            if maximum == criterion.points and given <= maximum:
                points[criterion.id] = given
            else:
                problems[criterion.id] = f"{criterion.id} is out of range; the line is `{form}`"
    return points, problems


def _is_far(
    total: int,
    points: dict[str, int],
    criteria: Sequence[RubricCriterion],
    *,
    or_incomplete: bool,
) -> bool:
    """Return whether a total is more than 5 away from the sum of the criteria.

    ``or_incomplete`` is the answer if there are no criteria or points are unknown.
    """
    if not criteria or any(each.id not in points for each in criteria):
        return or_incomplete
    maximum = sum(each.points for each in criteria)
    # |total - 100 * sum / maximum| > 5, in whole numbers
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
