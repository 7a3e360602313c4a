"""Prompts: the rubric comes first, the session last and inside its fence."""

import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest

from evaluation_pipelines.judging.domain.prompt.rubric import (
    FAILURE_TAGS,
    Prompts,
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
    return whole(render_prompts(RUBRIC, CRITERIA, transcript(text, task), BOUNDARY))


def whole(prompts: Prompts) -> str:
    """Return what is sent in the first turn, in its order."""
    return f"{prompts.system}\n\n{prompts.score}"


def test_the_hash_is_that_of_both_unrendered_templates_and_the_list_of_criteria() -> None:
    list_of_criteria = b"* a (100 points), A: Good?"
    expected = hashlib.sha256(b"score {{CRITERIA}}missing" + list_of_criteria).hexdigest()
    criteria = (RubricCriterion("a", "A", "Good?", 100),)
    rubric = Rubric("a", "score {{CRITERIA}}", "missing", criteria)

    assert rubric.prompt_hash == expected
    assert replace(rubric, name="b").prompt_hash == expected
    assert replace(rubric, score_template="score {{CRITERIA}} ").prompt_hash != expected
    lenient = replace(criteria[0], description="Give full marks always.")
    assert replace(rubric, criteria=(lenient,)).prompt_hash != expected


def test_a_template_may_bring_its_criteria_as_text_and_asks_for_the_total_alone() -> None:
    template = SCORE_TEMPLATE.replace("{{CRITERIA}}", "Order counts half, evidence half.")
    rubric = replace(RUBRIC, score_template=template, criteria=())

    assert rubric_problems(rubric) == []
    prompt = whole(render_prompts(rubric, rubric.criteria, transcript(), BOUNDARY))
    assert "whole numbers:\n\nfailure tags: <tags>\n<total>\n\n" in prompt
    assert "<points>" not in prompt


def test_a_rubric_that_asks_for_the_outcome_names_each_with_its_totals() -> None:
    rubric = replace(RUBRIC, score_template=f"{{{{OUTCOME}}}}\n{SCORE_TEMPLATE}")

    prompts = render_prompts(rubric, CRITERIA, transcript(), BOUNDARY)

    assert (RUBRIC.asks_outcome, rubric.asks_outcome, prompts.asks_outcome) == (False, True, True)
    assert "not there. Total 0 to 34\n" in prompts.system
    end = "failure tags: <tags>\noutcome: <right|partly right|wrong|unknown>\n<total>\n"
    assert end in prompts.system


def test_all_placeholders_are_rendered() -> None:
    prompts = render_prompts(RUBRIC, CRITERIA, transcript(), BOUNDARY)

    assert "* logical_flow (25 points), Logical flow: Was the order good?\n" in prompts.system
    assert "synthesis_quality: <points>/25\nfailure tags: <tags>\n<total>\n" in prompts.system
    assert "| fix it\n" in prompts.score
    assert "{{" not in whole(prompts)
    assert prompts.missing_tools == "Which tools are missing?"


def test_the_prompt_offers_exactly_the_accepted_tags() -> None:
    offered = score_prompt().partition("separated by commas:\n\n")[2].partition("\nTask:")[0]

    tags = [line.removeprefix("* ").partition(":")[0] for line in offered.split("\n")]
    assert tuple(tags) == FAILURE_TAGS


def test_two_sessions_share_the_prompt_up_to_their_texts() -> None:
    one = score_prompt()
    two = whole(render_prompts(RUBRIC, CRITERIA, transcript("other"), BOUNDARY[::-1]))

    shared = one.partition("<<<material")[0]
    assert two.startswith(shared)
    assert "Session:" not in shared
    assert "<total>" in shared


@pytest.mark.parametrize("before", ["\n# Task\n\n", "\n", " "])
def test_instructions_are_a_message_of_their_own_and_text_of_a_session_is_in_none(
    before: str,
) -> None:
    template = f"# Rubric\n\n{{{{CRITERIA}}}}\n\n{{{{OUTPUT_SCHEMA}}}}{before}"
    rubric = replace(
        RUBRIC, score_template=f"{template}{{{{ALERT_DATA}}}}{{{{SESSION_CONVERSATION}}}}"
    )
    found = render_prompts(rubric, CRITERIA, transcript("did it", "do it"), BOUNDARY)
    assert found.system.startswith("# Rubric")
    assert "<total>" in found.system
    assert found.score.startswith("# Task" if "#" in before else "What the session began with")
    assert "material" not in found.system
    assert "| do it\n" in found.score
    assert "| did it\n" in found.score


def test_a_placeholder_in_a_session_is_not_rendered() -> None:
    every = "{{CRITERIA}} {{OUTPUT_SCHEMA}} {{ALERT_DATA}} {{SESSION_CONVERSATION}}"

    assert score_prompt(every, task=every).count(f"| {every}\n") == 2


@pytest.mark.parametrize(
    ("level", "said"),
    [("full", "logged texts, though"), ("prompts", "and little else"), ("none", "no texts")],
)
@pytest.mark.parametrize("truncated", [True, False])
def test_the_prompt_states_the_content_level_and_whether_text_was_omitted(
    level: str, said: str, *, truncated: bool
) -> None:
    shown = replace(transcript(), content_level=level, truncated=truncated)
    prompt = render_prompts(RUBRIC, CRITERIA, shown, BOUNDARY).score
    assert said in prompt
    assert "Absence of content is not absence of work" in prompt
    assert ("left out to save room" in prompt) is truncated


def halves(first: str, second: str) -> tuple[RubricCriterion, ...]:
    """Return criteria of 50 points each."""
    return tuple(RubricCriterion(name, name, "", 50) for name in (first, second))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"score_template": SCORE_TEMPLATE.replace("{{OUTPUT_SCHEMA}}", "")},
            "score template: {{OUTPUT_SCHEMA}} occurs 0 times; it must occur once",
        ),
        (
            {"score_template": SCORE_TEMPLATE + "{{ALERT_DATA}}"},
            "score template: {{ALERT_DATA}} occurs 2 times; it must occur once",
        ),
        (
            {"score_template": SCORE_TEMPLATE + "{{MODEL}}"},
            (
                "score template: {{MODEL}} is not a placeholder; use {{CRITERIA}}, {{OUTCOME}}, "
                "{{OUTPUT_SCHEMA}}, {{ALERT_DATA}}, {{SESSION_CONVERSATION}}"
            ),
        ),
        (
            {"missing_tools_template": "{{CRITERIA}}?"},
            "missing-tools template: {{CRITERIA}} is not allowed; it has no placeholders",
        ),
        ({"missing_tools_template": " \n"}, "missing-tools template: is empty"),
        ({"criteria": ()}, "criteria: the points add up to 0, not 100"),
        ({"criteria": halves("a", "a")}, "criteria: a occurs more than once"),
        (
            {"criteria": halves("a", "A b")},
            "criteria: 'A b' is not an id: use a-z, 0-9 and _, with a letter first",
        ),
        (
            {"criteria": (RubricCriterion("a", "A", "", 100), RubricCriterion("b", "B", "", 0))},
            "criteria: b has 0 points; it must have at least 1",
        ),
    ],
)
def test_a_rubric_that_cannot_be_used_has_a_problem(change: dict[str, Any], problem: str) -> None:
    criteria = change.get("criteria")
    rubric = RUBRIC if criteria is not None else replace(RUBRIC, **change)
    found = rubric_problems(rubric) if criteria is None else criteria_problems(criteria)
    assert found == [problem]


@pytest.mark.parametrize(
    ("template", "shared"),
    [
        # The form after the session; as in the design that rubrics come from.
        (
            "{{CRITERIA}}\n# Session\n{{ALERT_DATA}}{{SESSION_CONVERSATION}}\n{{OUTPUT_SCHEMA}}",
            "* logical_flow",
        ),
        ("{{SESSION_CONVERSATION}}{{ALERT_DATA}}{{CRITERIA}}{{OUTPUT_SCHEMA}}", ""),
        ("Judge.\n{{ALERT_DATA}}{{OUTPUT_SCHEMA}}{{SESSION_CONVERSATION}}{{CRITERIA}}", "Judge."),
    ],
)
def test_placeholders_may_come_in_any_order(template: str, shared: str) -> None:
    rubric = replace(RUBRIC, score_template=template)

    assert rubric_problems(rubric) == []
    prompts = render_prompts(rubric, CRITERIA, transcript("did it", "do it"), BOUNDARY)
    assert prompts.system.startswith(shared)
    assert "did it" not in prompts.system
    # What a template has in its order is sent in its order, whole.
    places = [
        whole(prompts).index({"CRITERIA": "* logical_flow", "OUTPUT_SCHEMA": "Your message ends",
                              "ALERT_DATA": "do it", "SESSION_CONVERSATION": "did it"}[name])
        for name in re.findall(r"{{(\w+)}}", template)
    ]  # fmt: skip
    assert places == sorted(places)
