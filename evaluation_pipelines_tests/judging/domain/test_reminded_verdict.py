"""A reminder asks only for what is missing; both messages make the verdict."""

import pytest

from evaluation_pipelines.judging.domain.verdict import (
    Problem,
    Verdict,
    parse_reminded,
    parse_verdict,
)
from evaluation_pipelines_tests.judging.domain.judging_builders import CRITERIA, form


def test_a_problem_says_what_is_missing() -> None:
    lacks = parse_verdict(form(total="72.5").replace("consistency: 16/25", ""), CRITERIA)

    assert isinstance(lacks, Problem)
    assert (lacks.lacks_total, lacks.criteria) == (True, ())  # it is asked for alone
    lacks = parse_verdict(form().replace("consistency: 16/25", ""), CRITERIA)
    assert isinstance(lacks, Problem)
    assert not lacks.lacks_total
    assert [each.id for each in lacks.criteria] == ["consistency"]


@pytest.mark.parametrize("answer", ["80", "**80**", "total: 80", "Total score: 80\n"])
def test_a_total_from_the_reminder_joins_the_criteria_of_the_first_message(answer: str) -> None:
    # Qwen2.5-Coder 1.5B ends with such a line; its criteria are 20 each, 80 together.
    first = form(20, 20, 20, 20, total="The final score is 80.", tags="wrong_conclusion")

    read = parse_reminded(first, answer, CRITERIA)

    assert isinstance(read, Verdict)
    assert (read.total, set(read.criteria.values())) == (80, {20})
    assert read.failure_tags == ("wrong_conclusion",)
    assert read.analysis == first  # its last line is no total
    assert (read.numbers_from_reminder, read.incomplete_criteria) == (True, False)


def test_criteria_from_the_reminder_join_the_total_of_the_first_message() -> None:
    first = form().replace("consistency: 16/25", "").replace("logical_flow: 15/25", "")

    read = parse_reminded(first, "consistency: 16/25\nlogical_flow: 15/25", CRITERIA)

    assert isinstance(read, Verdict)
    assert (read.total, list(read.criteria.values())) == (57, [15, 16, 14, 12])
    assert read.numbers_from_reminder


def test_a_whole_second_message_counts_alone() -> None:
    first = form(15, 15, 15, 15, total="It was fair work.")

    read = parse_reminded(first, form(10, 11, 12, 8, analysis=""), CRITERIA)

    assert isinstance(read, Verdict)
    assert (read.total, sum(each or 0 for each in read.criteria.values())) == (41, 41)
    assert read.analysis.startswith("Weak.")
    assert read.numbers_from_reminder  # the text of the first one says 15 four times


@pytest.mark.parametrize("answer", ["", "I cannot say.", "consistency: 26/25", "57"])
def test_criteria_that_are_still_missing_are_null_and_flagged(answer: str) -> None:
    first = form().replace("consistency: 16/25", "")

    read = parse_reminded(first, answer, CRITERIA)

    assert isinstance(read, Verdict)
    assert (read.total, read.inconsistent_total) == (57, False)
    assert read.criteria == {
        "logical_flow": 15,
        "consistency": None,
        "tool_relevance": 14,
        "synthesis_quality": 12,
    }
    assert (read.numbers_from_reminder, read.incomplete_criteria) == (False, True)


def test_without_a_total_in_either_message_there_is_no_verdict() -> None:
    read = parse_reminded(form(total="72.5"), "about 72", CRITERIA)

    assert isinstance(read, Problem)
    assert read.lacks_total
