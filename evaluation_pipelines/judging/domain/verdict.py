"""Parse the verdict of a judge by strict rules.

A number is accepted only in the place where the requested form has it.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluation_pipelines.judging.domain.prompt.rubric import (
    FAILURE_TAGS,
    OUTCOME_LINE,
    OUTCOMES,
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
_OUTCOME = re.compile(rf"\W*outcome[\s*`]*:\W*({'|'.join(OUTCOMES)})\W*", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;]")
_NO_TAG = frozenset(("", "none", "no", "n_a", "null"))
_MAX_UNKNOWN_TAGS = 20
_MAX_TAG_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgment with its numbers.

    Attributes:
        total: Total from 0 to 100, as the judge wrote it, moved to the range of the outcome.
        criteria: Points by criterion id; ``None`` for a criterion without a valid line.
        failure_tags: Tags of ``FAILURE_TAGS``; ``()`` if the judge names none, ``None`` if there is
            no tags line or it has only unknown tags.
        analysis: The message without the line of the total.
        inconsistent_total: Whether the total differs by more than 5 from the sum of the criteria,
            on a scale of 100 and within the range of the outcome.
        unknown_tags: Other tags in the tags line; at most 20, of at most 60 characters each.
        incomplete_criteria: Whether a criterion has no points.
        short_analysis: Whether the analysis has fewer than 200 words.
        numbers_from_reminder: Whether a number comes from the answer to a reminder.
        outcome: Name of ``OUTCOMES``; ``None`` if it is not asked for, or unreadable even after a
            reminder: the total is then limited as that of an unknown one.
        outside_ceiling: Whether the judge wrote a total that the outcome does not allow.
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
    outcome: str | None = None
    outside_ceiling: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a message is not a verdict, and what it lacks.

    Attributes:
        reason: A sentence; the reminder quotes it to the judge.
        lacks_total: Whether there is no valid total.
        criteria: Criteria to ask for: those without a valid line; none if the total is missing,
            which is asked for alone.
        lacks_outcome: Whether the outcome has to be asked for with them.
    """

    reason: str
    lacks_total: bool
    criteria: tuple[RubricCriterion, ...]
    lacks_outcome: bool = False


@dataclass(frozen=True, slots=True)
class _Form:
    """What one message, or two together, hold of the requested form."""

    total: int | None
    points: dict[str, int]
    problems: dict[str, str]
    tags: tuple[str, ...] | None
    unknown_tags: tuple[str, ...]
    outcome: str | None

    def is_complete(self, *, asks_outcome: bool) -> bool:
        has_outcome = self.outcome is not None or not asks_outcome
        return self.total is not None and not self.problems and has_outcome


def parse_verdict(
    text: str, criteria: Sequence[RubricCriterion], *, asks_outcome: bool = False
) -> Verdict | Problem:
    """Parse a message of the judge.

    The total is the last line that is not empty, if it contains one whole number from 0 to 100 and
    no other letter, digit, sign, slash or decimal point. The same after the word "total" or "total
    score" counts if every criterion has a line above it and their sum is at most 5 away. Each
    criterion has a line ``<id>: <points>/<maximum points>``; identical lines count once. So does
    the line of the outcome, if it is asked for.
    """
    form = _read(text, criteria)
    if form.total is None or not form.is_complete(asks_outcome=asks_outcome):
        return _problem(form, criteria, asks_outcome=asks_outcome)
    analysis = analysis_of(text, criteria)
    return _verdict(form, form.total, criteria, analysis, asks_outcome=asks_outcome)


def parse_reminded(
    first: str, second: str, criteria: Sequence[RubricCriterion], *, asks_outcome: bool = False
) -> Verdict | Problem:
    """Parse a message together with the answer to the reminder that followed it.

    A second message with the whole form counts alone, so that its numbers fit together. Otherwise
    it adds what the first one lacks. The analysis is that of the first message. Criteria without a
    valid line in both are ``None``; without a total there is no verdict.
    """
    known, answered = _read(first, criteria), _read(second, criteria)
    is_whole = answered.is_complete(asks_outcome=asks_outcome)
    form = answered if is_whole else _joined(known, answered, second, criteria)
    if form.total is None:
        return _problem(form, criteria, asks_outcome=asks_outcome)
    total = form.total
    if form.tags is None:
        form = replace(form, tags=known.tags, unknown_tags=known.unknown_tags)
    analysis = analysis_of(first, criteria)
    verdict = _verdict(form, total, criteria, analysis, asks_outcome=asks_outcome)
    is_added = (total, form.points, form.outcome) != (known.total, known.points, known.outcome)
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
    return _Form(total, points, problems, *_tags(lines), _outcome(lines))


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
    outcome = answered.outcome or known.outcome
    return _Form(total, points, problems, answered.tags, answered.unknown_tags, outcome)


def _problem(form: _Form, criteria: Sequence[RubricCriterion], *, asks_outcome: bool) -> Problem:
    no_total = f"the last line does not hold a whole number from 0 to {TOTAL_POINTS} alone"
    reasons = ([no_total] if form.total is None else []) + list(form.problems.values())
    lacks_outcome = asks_outcome and form.outcome is None
    reasons += [f"there is not one line `{OUTCOME_LINE}`"] if lacks_outcome else []
    if form.total is None:
        # Asked for lines and the total together, small models repeat the lines alone.
        return Problem(reasons[0], lacks_total=True, criteria=())
    lacking = tuple(criterion for criterion in criteria if criterion.id in form.problems)
    return Problem(reasons[0], False, lacking, lacks_outcome)  # noqa: FBT003


def _verdict(
    form: _Form,
    total: int,
    criteria: Sequence[RubricCriterion],
    analysis: str,
    *,
    asks_outcome: bool,
) -> Verdict:
    limits = OUTCOMES[form.outcome or "unknown"][1:] if asks_outcome else (0, TOTAL_POINTS)
    allowed = _moved(total, *limits)
    return Verdict(
        total=allowed,
        criteria={criterion.id: form.points.get(criterion.id) for criterion in criteria},
        failure_tags=form.tags,
        analysis=analysis,
        inconsistent_total=_is_far(allowed, form.points, criteria, limits, or_incomplete=False),
        unknown_tags=form.unknown_tags,
        incomplete_criteria=not form.is_complete(asks_outcome=asks_outcome),
        short_analysis=_count_words(analysis, criteria) < MIN_ANALYSIS_WORDS,
        outcome=form.outcome if asks_outcome else None,
        outside_ceiling=allowed != total,
    )


def _moved(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def _count_words(analysis: str, criteria: Sequence[RubricCriterion]) -> int:
    """Return the number of words between blanks, without the lines of the form."""
    patterns = [*(_line_of(criterion) for criterion in criteria), _TAGS, _OUTCOME]
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
    return any(sign in _NOT_WHOLE or unicodedata.category(sign) == "Pd" for sign in plain)


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
    limits: tuple[int, int] = (0, TOTAL_POINTS),
    *,
    or_incomplete: bool,
) -> bool:
    """Return whether a total is more than 5 away from the sum of the criteria within limits.

    ``or_incomplete`` is the answer if there are no criteria or points are unknown.
    """
    if not criteria or any(criterion.id not in points for criterion in criteria):
        return or_incomplete
    maximum = sum(criterion.points for criterion in criteria)
    # |total - 100 * sum / maximum| > 5, in whole numbers
    low, high = (limit * maximum for limit in limits)
    difference = abs(total * maximum - _moved(TOTAL_POINTS * sum(points.values()), low, high))
    return difference > LARGEST_DIFFERENCE * maximum


def _tags(lines: Sequence[str]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return known and unknown tags of the last tags line.

    The known tags are ``None`` if there is no tags line or it has only unknown tags.
    """
    tag_lists = [match[1] for line in lines if (match := _TAGS.fullmatch(line.replace("\\_", "_")))]
    if not tag_lists:
        return None, ()
    names = [_tag_name(word) for word in _SEPARATOR.split(tag_lists[-1])]
    named = list(dict.fromkeys(name for name in names if name not in _NO_TAG))
    known = tuple(tag for tag in FAILURE_TAGS if tag in named)
    unknown = tuple(tag[:_MAX_TAG_LENGTH] for tag in named if tag not in FAILURE_TAGS)
    return (None if unknown and not known else known), unknown[:_MAX_UNKNOWN_TAGS]


def _outcome(lines: Sequence[str]) -> str | None:
    """Return the outcome if all lines that name one agree."""
    found = {match[1].lower() for line in lines if (match := _OUTCOME.fullmatch(line))}
    return found.pop() if len(found) == 1 else None


def _tag_name(written: str) -> str:
    return re.sub(r"\W+", "_", written).strip("_").lower()
