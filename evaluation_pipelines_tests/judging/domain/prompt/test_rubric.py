"""Prompts: rubric first, session last, and nothing of the session can leave its fence."""

import hashlib
from dataclasses import replace

import pytest

from evaluation_pipelines.judging.domain.prompt.rubric import (
    FAILURE_TAGS,
    Rubric,
    RubricCriterion,
    criteria_problems,
    render_prompts,
    rubric_problems,
)
from evaluation_pipelines_tests.judging.domain.judging_builders import (
    BOUNDARY,
    CRITERIA,
    RUBRIC,
    SCORE_TEMPLATE,
    transcript,
)


def score_prompt(text: str = "did it", task: str = "do it") -> str:
    return render_prompts(RUBRIC, CRITERIA, transcript(text, task), BOUNDARY).score


def test_the_hash_is_that_of_both_templates_before_anything_is_put_in() -> None:
    expected = hashlib.sha256(b"score {{CRITERIA}}missing").hexdigest()

    assert Rubric("a", "score {{CRITERIA}}", "missing", ()).prompt_hash == expected
    assert Rubric("b", "score {{CRITERIA}}", "missing", CRITERIA).prompt_hash == expected
    assert Rubric("a", "score {{CRITERIA}} ", "missing", ()).prompt_hash != expected


def test_everything_is_put_in() -> None:
    prompts = render_prompts(RUBRIC, CRITERIA, transcript(), BOUNDARY)

    assert "* logical_flow (25 points), Logical flow: Was the order good?\n" in prompts.score
    assert "synthesis_quality: <points>/25\nfailure tags: <tags>\n<total>\n" in prompts.score
    assert "| fix it\n" in prompts.score
    assert "{{" not in prompts.score
    assert prompts.missing_tools == "Which tools are missing?"


def test_the_prompt_offers_exactly_the_tags_that_are_read() -> None:
    offered = score_prompt().partition("separated by commas:\n\n")[2].partition("\nTask:")[0]

    tags = [line.removeprefix("* ").partition(":")[0] for line in offered.split("\n")]
    assert tuple(tags) == FAILURE_TAGS


def test_two_sessions_share_the_beginning_of_the_prompt_up_to_their_own_words() -> None:
    one = score_prompt()
    two = render_prompts(RUBRIC, CRITERIA, transcript("other"), BOUNDARY[::-1]).score

    shared = one.partition("<<<material")[0]
    assert two.startswith(shared)
    assert "Session:" not in shared
    assert "<total>" in shared


def test_a_placeholder_in_a_session_is_left_alone() -> None:
    every = "{{CRITERIA}} {{OUTPUT_SCHEMA}} {{ALERT_DATA}} {{SESSION_CONVERSATION}}"

    assert score_prompt(every, task=every).count(f"| {every}\n") == 2


@pytest.mark.parametrize(
    ("level", "said"),
    [("full", "logged texts, though"), ("prompts", "and little else"), ("none", "no texts")],
)
def test_the_judge_is_told_how_much_was_logged_and_that_absence_is_not_idleness(
    level: str, said: str
) -> None:
    shown = replace(transcript(), content_level=level)

    prompt = render_prompts(RUBRIC, CRITERIA, shown, BOUNDARY).score

    assert said in prompt
    assert "Absence of content is not absence of work" in prompt


@pytest.mark.parametrize("truncated", [True, False])
def test_the_judge_is_told_that_something_was_cut(*, truncated: bool) -> None:
    shown = replace(transcript(), truncated=truncated)

    prompt = render_prompts(RUBRIC, CRITERIA, shown, BOUNDARY).score

    assert ("left out to save room" in prompt) is truncated


@pytest.mark.parametrize(
    ("score", "problem"),
    [
        (
            SCORE_TEMPLATE.replace("{{CRITERIA}}", ""),
            "score template: {{CRITERIA}} stands there 0 times, not once",
        ),
        (
            SCORE_TEMPLATE + "{{ALERT_DATA}}",
            "score template: {{ALERT_DATA}} stands there 2 times, not once",
        ),
        (
            SCORE_TEMPLATE + "{{MODEL}}",
            (
                "score template: {{MODEL}} is no placeholder; there are {{CRITERIA}}, "
                "{{OUTPUT_SCHEMA}}, {{ALERT_DATA}}, {{SESSION_CONVERSATION}}"
            ),
        ),
        (
            "{{SESSION_CONVERSATION}}{{ALERT_DATA}}{{CRITERIA}}{{OUTPUT_SCHEMA}}",
            (
                "score template: {{CRITERIA}} and {{OUTPUT_SCHEMA}} must stand before "
                "{{ALERT_DATA}} and {{SESSION_CONVERSATION}}, so that all sessions share the "
                "beginning of the prompt"
            ),
        ),
    ],
)
def test_a_score_template_holds_each_placeholder_once_and_the_session_last(
    score: str, problem: str
) -> None:
    assert rubric_problems(replace(RUBRIC, score_template=score)) == [problem]


def test_a_rubric_without_fault_has_no_problems() -> None:
    assert rubric_problems(RUBRIC) == []


@pytest.mark.parametrize(
    ("missing_tools", "problem"),
    [
        (
            "{{CRITERIA}}?",
            "missing-tools template: {{CRITERIA}} has no place here, it takes no placeholder",
        ),
        (" \n", "missing-tools template: is empty"),
    ],
)
def test_the_second_question_is_plain_text(missing_tools: str, problem: str) -> None:
    assert rubric_problems(replace(RUBRIC, missing_tools_template=missing_tools)) == [problem]


@pytest.mark.parametrize(
    ("criteria", "problems"),
    [
        ((), ["criteria: their points make 0 together, not 100"]),
        (
            (RubricCriterion("a", "A", "", 50), RubricCriterion("a", "A", "", 50)),
            ["criteria: a stands there twice"],
        ),
        (
            (RubricCriterion("A b", "A", "", 100),),
            ["criteria: 'A b' is no id: a small letter, then small letters, digits and _"],
        ),
        (
            (RubricCriterion("a", "A", "", 100), RubricCriterion("b", "B", "", 0)),
            ["criteria: b has 0 points; give it at least 1"],
        ),
    ],
)
def test_criteria_have_ids_and_points_that_make_100(
    criteria: tuple[RubricCriterion, ...], problems: list[str]
) -> None:
    assert criteria_problems(criteria) == problems
