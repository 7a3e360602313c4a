"""A verdict is parsed only from the requested form."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.rubric import FAILURE_TAGS, RubricCriterion
from evaluation_pipelines.judging.domain.verdict import (
    Problem,
    Verdict,
    analysis_of,
    parse_reminded,
    parse_verdict,
)
from evaluation_pipelines_tests.judging.domain.judging_builders import CRITERIA, form


def verdict(text: str) -> Verdict:
    parsed = parse_verdict(text, CRITERIA)
    assert isinstance(parsed, Verdict), parsed
    return parsed


def problem(text: str) -> str:
    parsed = parse_verdict(text, CRITERIA)
    assert isinstance(parsed, Problem), parsed
    return parsed.reason


def test_a_message_in_the_form_is_parsed_completely() -> None:
    text = form(15, 16, 14, 12, tags="incomplete_evidence, premature_conclusion")

    read = verdict(text)

    assert read == Verdict(
        total=57,  # 15 + 16 + 14 + 12
        criteria={
            "logical_flow": 15,
            "consistency": 16,
            "tool_relevance": 14,
            "synthesis_quality": 12,
        },
        failure_tags=(
            "premature_conclusion",
            "incomplete_evidence",
        ),  # the order of FAILURE_TAGS
        analysis=text.removesuffix("\n57"),
        inconsistent_total=False,
        short_analysis=True,
    )


@pytest.mark.parametrize(
    ("line", "total"),
    [
        ("57", 57),
        ("0", 0),
        ("100", 100),
        ("007", 7),
        ("**57**", 57),
        ("  57  ", 57),
        ("> 57", 57),
        ("`57`", 57),
        ("57 %", 57),
        ("(57)", 57),
        ("57\n\n \t\n", 57),
        ("57\r\n", 57),
    ],
)
def test_the_total_is_the_last_line_that_is_not_empty(line: str, total: int) -> None:
    assert verdict(form(total=line)).total == total


@pytest.mark.parametrize(
    "line",
    [
        "",
        "67/100",  # a looser rule reads 100
        "72.5",  # a looser rule reads 5
        "-5",
        "- 57",
        "\u221257",  # minus sign
        "\u201357",  # en dash
        "+57",
        "\u00b157",
        "57.",
        ".57",
        "57,",
        "5,7",
        "\uff0f57",  # full-width slash
        "57\uff0e",  # full-width period
        "57 \u2044",
        "57 \u2105",  # care of: a sign that contains a slash
        "\\57",
        "101",
        "999",
        "1000",
        "57 points",
        "total: 63",  # 6 away from the sum of 57
        "Total: 51",
        "total: 57/100",
        "total: 57.0",
        "total: -57",
        "total is 57",
        "total points: 57",
        "subtotal: 57",
        "total: 57 of 100",
        "_57_",
        "\uff15\uff17",  # full-width digits
        "\u0665\u0667",  # Arabic digits
        "57\u00bd",  # one half
        "5\u200b7",
        "5 7",
        "57 57",
        "fifty-seven",
        "57\n```",
        "57\n\u200b",  # a line with an invisible character is not empty
        "Thanks.\u202857",  # U+2028 does not end a line
        "<total>",
    ],
)
def test_other_lines_are_not_a_total(line: str) -> None:
    assert problem(form(total=line)) == (
        "the last line does not hold a whole number from 0 to 100 alone"
    )


@pytest.mark.parametrize(
    "line",
    [
        "logical_flow: 15/25",
        "* logical_flow: 15/25",
        "**logical_flow**: 15/25",
        "**logical_flow:** 15/25",
        "- `logical_flow` : 15 / 25  ",
        "logical\\_flow: 15/25",
        "Logical_Flow: 15/25",
        "logical_flow: 15/25.",
        "logical_flow: 15/25\nlogical_flow: 15/25",
        "## logical_flow: 15/25",
    ],
)
def test_a_criterion_line_may_have_markup(line: str) -> None:
    text = form().replace("logical_flow: 15/25", line)

    assert verdict(text).criteria["logical_flow"] == 15


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "there is no line `logical_flow: <points>/25`"),
        ("logical_flow: fifteen/25", "there is no line `logical_flow: <points>/25`"),
        ("logical_flow: 15", "there is no line `logical_flow: <points>/25`"),
        ("logical_flow: 15.5/25", "there is no line `logical_flow: <points>/25`"),
        ("logical_flow: -5/25", "there is no line `logical_flow: <points>/25`"),
        ("logical_flow: 15/25 good", "there is no line `logical_flow: <points>/25`"),
        ("It said logical_flow: 15/25", "there is no line `logical_flow: <points>/25`"),
        ("xlogical_flow: 15/25", "there is no line `logical_flow: <points>/25`"),
        ("logical_flow: 26/25", "logical_flow is out of range; the line is `logical_flow:"),
        ("logical_flow: 15/20", "logical_flow is out of range; the line is `logical_flow:"),
        (
            "logical_flow: 15/25\nlogical_flow: 25/25",
            "lines of logical_flow contradict each other; give `logical_flow: <points>/25` once",
        ),
    ],
)
def test_a_criterion_without_its_line_is_a_problem(line: str, reason: str) -> None:
    text = form().replace("logical_flow: 15/25", line)

    assert problem(text).startswith(reason)


@pytest.mark.parametrize(
    ("points", "most", "total", "inconsistent"),
    [
        *((57, 100, total, False) for total in (57, 62, 52)),
        *((57, 100, total, True) for total in (63, 51, 100)),
        # On the scale of the total: 7 of 10 is 70, and one point is all or nothing.
        *((7, 10, 70, False), (7, 10, 75, False), (7, 10, 76, True)),
        *((0, 1, 95, True), (1, 1, 95, False)),
    ],
)
def test_a_total_far_from_the_sum_is_kept_and_flagged(
    points: int, most: int, total: int, *, inconsistent: bool
) -> None:
    criteria = (RubricCriterion("depth", "Depth", "", most),)
    read = parse_verdict(f"depth: {points}/{most}\n{total}", criteria)
    assert isinstance(read, Verdict)
    assert (read.total, read.inconsistent_total) == (total, inconsistent)


def test_without_criteria_a_total_is_enough() -> None:
    assert parse_verdict("Bad.\n12", ()) == Verdict(
        12, {}, None, "Bad.", inconsistent_total=False, short_analysis=True
    )


@pytest.mark.parametrize(
    ("tags", "known", "unknown"),
    [
        (None, None, ()),
        ("none", (), ()),
        ("None.", (), ()),
        ("", (), ()),
        ("[]", (), ()),
        ("n/a", (), ()),
        ("wrong_conclusion", ("wrong_conclusion",), ()),
        ("[Wrong-Conclusion; `missed available tool`]", FAILURE_TAGS[1:2] + FAILURE_TAGS[5:], ()),
        ("wrong_conclusion, wrong_conclusion", ("wrong_conclusion",), ()),
        ("wrong_conclusion, laziness", ("wrong_conclusion",), ("laziness",)),
        ("laziness", None, ("laziness",)),
        ("a" * 70, None, ("a" * 60,)),
        (", ".join(f"t{n}" for n in range(30)), None, tuple(f"t{n}" for n in range(20))),
    ],
)
def test_unknown_tags_are_ignored_and_are_not_the_word_none(
    tags: str | None, known: tuple[str, ...] | None, unknown: tuple[str, ...]
) -> None:
    read = verdict(form(tags=tags))

    assert (read.failure_tags, read.unknown_tags) == (known, unknown)


def test_the_last_tags_line_counts() -> None:
    text = form(tags="none", analysis="failure tags: wrong_conclusion\nOn second thoughts:")

    assert verdict(text).failure_tags == ()
    assert verdict(text.replace("failure tags: none", "**Failure tags:** none")).failure_tags == ()


@pytest.mark.parametrize(
    ("text", "analysis"),
    [
        ("Bad.\n\n57\n", "Bad."),
        ("Bad.\n72.5", "Bad.\n72.5"),
        ("57", ""),
        ("", ""),
        (form(total="**Total score:** 57"), form().removesuffix("\n57")),
        ("Bad.\ntotal: 57", "Bad.\ntotal: 57"),  # not a total without criteria
    ],
)
def test_the_analysis_is_the_message_without_the_total_line(text: str, analysis: str) -> None:
    assert analysis_of(text, CRITERIA) == analysis


@pytest.mark.parametrize(
    "line",
    [
        "total: 57",
        "Total: 57",
        "**Total:** 57",
        "**Total score: 57**",
        "TOTAL SCORE : `57`",
        "- total_score: 57",
        "## Total: 57\n\n",
        "total: 62",  # 5 away from the sum
        "total: 52",
    ],
)
def test_a_named_total_counts_below_all_criteria_that_sum_to_it(line: str) -> None:
    read = verdict(form(total=line))

    assert read.total == int(re.findall(r"\d+", line)[0])
    assert not read.inconsistent_total
    assert read.analysis == form().removesuffix("\n57")


def test_a_named_total_does_not_count_without_every_criterion_above_it() -> None:
    missing = form(total="total: 57").replace("consistency: 16/25", "")
    assert problem(missing).startswith("the last line")
    (below,) = [criterion for criterion in CRITERIA if criterion.id == "consistency"]
    assert problem(f"total: 16\n{below.id}: 16/25").startswith("the last line")
    assert isinstance(parse_verdict("Bad.\ntotal: 12", ()), Problem)


@pytest.mark.parametrize(("words", "is_short"), [(199, True), (200, False)])
def test_an_analysis_of_fewer_than_200_words_is_flagged(words: int, *, is_short: bool) -> None:
    read = verdict(form(analysis="word " * words))  # the lines of the form are no words of it

    assert read.short_analysis is is_short


# Pieces of messages, so that random messages resemble the form.
PIECES = st.sampled_from(
    [
        *form().split("\n"),
        "\n",
        "\r\n",
        "/",
        ".",
        "-",
        "57",
        "100",
        " ",
        "**",
        "\u2028",
        "x",
        "25",
        "total:",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join), st.just(form())))
def test_any_message_is_parsed_and_a_total_follows_the_rule(text: str) -> None:
    read = parse_verdict(text, CRITERIA)

    if isinstance(read, Verdict):
        lines = [line for line in re.split(r"\r\n|\n|\r", text) if line.strip()]
        assert re.fullmatch(r"(\W*total:)?\W*([0-9]{1,3})\W*", lines[-1])
        assert not set("+-/.,") & set(lines[-1])
        assert read.total == int("".join(filter(str.isdigit, lines[-1]))) <= 100
        assert all(0 <= (points or 0) <= 25 for points in read.criteria.values())
        assert read.criteria.keys() == {criterion.id for criterion in CRITERIA}


@given(st.lists(PIECES, max_size=12).map("\n".join), st.integers(0, 100))
def test_text_before_the_form_does_not_change_the_verdict(before: str, total: int) -> None:
    read = parse_verdict(f"{before}\n{form(total=total, analysis='')}", CRITERIA)

    assert isinstance(read, Verdict)
    assert (read.total, read.criteria["consistency"]) == (total, 16)


WITHOUT_TWO = form().replace("consistency: 16/25", "").replace("logical_flow: 15/25", "")
WITHOUT_ONE = form().replace("consistency: 16/25", "")
# Qwen2.5-Coder 1.5B ends with such a line; its criteria are 20 each, 80 together.
WITHOUT_TOTAL = form(20, 20, 20, 20, total="The final score is 80.", tags="wrong_conclusion")


@pytest.mark.parametrize(
    ("first", "answer", "total", "points", "is_from_reminder"),
    [
        *((WITHOUT_TOTAL, answer, 80, [20] * 4, True) for answer in ("80", "**80**", "total: 80")),
        (WITHOUT_TWO, "consistency: 16/25\nlogical_flow: 15/25", 57, [15, 16, 14, 12], True),
        # Points that were given do not change.
        (WITHOUT_ONE, "consistency: 16/25\nlogical_flow: 5/25", 57, [15, 16, 14, 12], True),
        # A whole second message counts alone.
        (form(15, 15, 15, 15, total="Fair."), form(10, 11, 12, 8), 41, [10, 11, 12, 8], True),
        # What is still missing is null.
        *(
            (WITHOUT_ONE, answer, 57, [15, None, 14, 12], False)
            for answer in ("", "I cannot say.", "consistency: 26/25", "57")
        ),
    ],
)
def test_the_answer_to_a_reminder_joins_the_first_message(
    first: str, answer: str, total: int, points: list[int | None], *, is_from_reminder: bool
) -> None:
    read = parse_reminded(first, answer, CRITERIA)

    assert isinstance(read, Verdict)
    assert (read.total, [*read.criteria.values()]) == (total, points)
    assert (read.numbers_from_reminder, read.inconsistent_total) == (is_from_reminder, False)
    assert read.incomplete_criteria is (None in points)
    assert read.analysis.startswith("Weak.")
    if first == WITHOUT_TOTAL:
        assert (read.failure_tags, read.analysis) == (("wrong_conclusion",), first)


def with_outcome(outcome: str, *points: int, total: int | None = None) -> str:
    """Return a message with an outcome before the total."""
    lines = form(*points, total=total).split("\n")
    return "\n".join([*lines[:-1], f"outcome: {outcome}", lines[-1]])


@pytest.mark.parametrize(
    ("outcome", "points", "total", "kept", "is_outside", "is_inconsistent"),
    [
        ("wrong", (20, 20, 20, 15), 75, 34, True, False),  # methodical: their sum is 75
        ("wrong", (20, 20, 20, 15), 34, 34, False, False),
        ("wrong", (5, 5, 5, 5), 34, 34, False, True),  # 14 above their sum
        ("partly right", (5, 5, 5, 5), 20, 35, True, False),
        ("Partly Right", (15, 15, 15, 10), 55, 55, False, False),
        ("right", (10, 10, 10, 10), 60, 60, False, False),
        ("**right**", (25, 25, 25, 25), 100, 100, False, False),
        ("right", (25, 25, 25, 25), 70, 70, False, True),
        ("unknown", (20, 20, 20, 20), 80, 59, True, False),
        ("unknown", (0, 0, 0, 0), 0, 0, False, False),
    ],
)
def test_the_outcome_limits_the_total(
    outcome: str,
    points: tuple[int, ...],
    total: int,
    kept: int,
    is_outside: bool,
    is_inconsistent: bool,
) -> None:
    text = with_outcome(outcome, *points, total=total)

    read = parse_verdict(text, CRITERIA, asks_outcome=True)

    assert isinstance(read, Verdict)
    assert (read.outcome, read.total) == (outcome.strip("*").lower(), kept)
    assert (read.outside_ceiling, read.inconsistent_total) == (is_outside, is_inconsistent)
    assert verdict(text).outcome is None  # another rubric does not ask for it


def test_a_missing_or_contradicted_outcome_is_asked_for_and_else_limits_as_unknown() -> None:
    doubtful = with_outcome("wrong\noutcome: right", 20, 20, 20, 20)
    for first in (form(20, 20, 20, 20), doubtful):
        lacks = parse_verdict(first, CRITERIA, asks_outcome=True)
        assert isinstance(lacks, Problem)
        assert (lacks.lacks_total, lacks.criteria, lacks.lacks_outcome) == (False, (), True)
        assert "one line `outcome: <right|partly right|wrong|unknown>`" in lacks.reason
        answered = parse_reminded(first, "outcome: wrong", CRITERIA, asks_outcome=True)
        silent = parse_reminded(first, "It is fine.", CRITERIA, asks_outcome=True)
        assert isinstance(answered, Verdict)
        assert isinstance(silent, Verdict)
        assert (answered.outcome, answered.total, answered.incomplete_criteria) == (
            *("wrong", 34),
            False,
        )
        assert (silent.outcome, silent.total, silent.incomplete_criteria) == (None, 59, True)
