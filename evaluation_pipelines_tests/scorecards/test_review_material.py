"""What a reviewer sees before answering: criteria with their meaning, and the transcript."""

import pytest

from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.scorecards.audit_review import (
    WHOLE_TRANSCRIPT,
    review_criteria,
    review_transcript,
)
from evaluation_pipelines.scorecards.scorecard_queries import Target, find_target
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.scorecard_builders import criteria, judged_profile, profile
from evaluation_pipelines_tests.workplace import NOW, Workplace


def target(workplace: Workplace) -> Target:
    sync_profiles(workplace.stores, NOW)
    return find_target(workplace.stores, SessionName("s1"))


def test_judged_criteria_have_the_words_of_the_rubric(workplace: Workplace) -> None:
    found = review_criteria(judged_profile(), workplace.settings)

    assert [(each.id, each.weight) for each in found] == [
        ("logical_flow", 0.25),
        ("consistency", 0.25),
        ("tool_relevance", 0.25),
        ("synthesis_quality", 0.25),
    ]
    assert all(len(each.description) > 20 for each in found)


def test_own_words_of_a_profile_come_first_and_computed_criteria_say_so(
    workplace: Workplace,
) -> None:
    mixed = profile(
        method="hybrid",
        rubric="unknown",
        criteria=[
            {"id": "tool_count", "weight": 30},
            {"id": "kindness", "name": "Kindness", "description": "No harsh word.", "weight": 60},
            {"id": "haste", "name": "Haste", "weight": 10},
        ],
    )
    found = review_criteria(mixed, workplace.settings)

    assert [(each.name, each.description) for each in found] == [
        ("Tool count", "how few tool calls each prompt takes"),
        ("Kindness", "No harsh word."),
        ("Haste", "Haste"),
    ]
    assert [each.weight for each in found] == pytest.approx([0.3, 0.6, 0.1])
    assert len(review_criteria(profile(criteria=criteria(tool_count=1)), workplace.settings)) == 1


def test_secrets_and_the_middle_of_a_long_text_are_left_out(workplace: Workplace) -> None:
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    words = " ".join(f"word{number}" for number in range(3000))
    fill(workplace, session_with_texts("s1", text=f"{secret} {words}"))
    whole = review_transcript(workplace.stores, target(workplace), WHOLE_TRANSCRIPT, NOW)
    short = review_transcript(workplace.stores, target(workplace), 1000, NOW)

    assert whole is not None
    assert short is not None
    assert (whole.truncated, short.truncated) == (False, True)
    assert secret not in whole.task
    assert sum(whole.redactions.values()) >= 1
    assert "word1500" in whole.task
    assert "word1500" not in short.task
    assert "It is fixed." in whole.text


def test_a_session_that_has_continued_has_no_transcript_of_what_was_looked_up(
    workplace: Workplace,
) -> None:
    fill(workplace, session_with_texts("s1"))
    before = target(workplace)
    fill(workplace, session_with_texts("s1", 60))

    assert review_transcript(workplace.stores, before, 1000, NOW) is None
    assert review_transcript(workplace.stores, target(workplace), 1000, NOW) is not None
