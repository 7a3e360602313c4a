"""Rounds of several reviewers through one audit sample."""

from datetime import datetime

import pytest

from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.scorecards.audit_review import (
    NO_REASON,
    WHOLE_TRANSCRIPT,
    AuditReview,
    GivenScore,
    review_criteria,
    session_transcript,
)
from evaluation_pipelines.scorecards.blind_reviews import open_samples
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.overrides import OverrideError
from evaluation_pipelines.scorecards.scorecard_queries import Target, find_target
from evaluation_pipelines.scorecards.store import (
    AuditSample,
    OverrideStore,
)
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines_tests.judged import JUNE_1, fill, session_with_texts
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import session
from evaluation_pipelines_tests.world.scorecards import criteria, judged_profile, profile

KEYS = ("s1#baseline-1", "s2#baseline-1", "s3#baseline-1")


@pytest.fixture
def sampled(workplace: Workplace) -> Workplace:
    """Three sessions, all of them in the audit sample."""
    fill(workplace, *(session(f"s{number}", number) for number in (1, 2, 3)))
    samples = [AuditSample(JUNE_1, "default", key, "general-performance", "0", NOW) for key in KEYS]
    OverrideStore(workplace.ledger).add_samples(samples)
    return workplace


def begun(workplace: Workplace, annotator: str) -> AuditReview:
    review = AuditReview(workplace.stores, annotator)
    review.begin(NOW)
    return review


def first_of(workplace: Workplace) -> AuditSample:
    return open_samples(workplace.stores)[0]


def answer(review: AuditReview, sample: AuditSample, score: float) -> GivenScore:
    return review.answer(review.target(sample), score, NOW)


def order(review: AuditReview, now: datetime) -> list[str]:
    """Return the sessions in the order in which they are shown."""
    seen, keys = set[SessionKey](), list[str]()
    while (sample := review.next_sample(seen, now)) is not None:
        seen.add(sample.key)
        keys.append(sample.session_key)
    return keys


def test_a_reason_changes_neither_score_nor_source(sampled: Workplace) -> None:
    ada, sample = begun(sampled, "Ada"), first_of(sampled)
    given = answer(ada, sample, 20)
    of = ada.target(sample)
    ada.explain(given, of, " too kind ", "tool_effectiveness", NOW)
    with pytest.raises(OverrideError, match="has no criterion speed"):
        ada.explain(given, of, "x", "speed", NOW)

    (row,) = OverrideStore(sampled.ledger).of_dates().rows(named=True)
    assert (row["override_score"], row["source"]) == (20, "audit")
    assert (row["reason"], row["criterion_id"]) == ("too kind", "tool_effectiveness")
    ada.explain(given, of, "", None, NOW)
    assert OverrideStore(sampled.ledger).of_dates()["reason"].to_list() == [NO_REASON]


def test_a_reviewer_needs_a_name_and_has_no_progress_before_a_round(sampled: Workplace) -> None:
    with pytest.raises(OverrideError, match="annotator is empty"):
        AuditReview(sampled.stores, " ")
    assert AuditReview(sampled.stores, "Ada").progress() is None


def test_an_answer_is_taken_back_by_its_reviewer_only(sampled: Workplace) -> None:
    answer(begun(sampled, "ada"), first_of(sampled), 8)
    ben = begun(sampled, "ben")

    assert ben.undo(NOW) is None
    # An ordinary override, which came too late to be the answer, is none to take back.
    assert not answer(
        ben, AuditSample(JUNE_1, "default", KEYS[0], "general-performance", "0", NOW), 9
    ).is_answer
    assert ben.undo(NOW) is None
    assert AuditReview(sampled.stores, "ada").undo(NOW) == ("default", KEYS[0], 8)


def target(workplace: Workplace) -> Target:
    sync_profiles(workplace.stores, NOW)
    return find_target(workplace.stores, SessionName("s1"))


def test_judged_criteria_have_the_words_of_the_rubric(workplace: Workplace) -> None:
    found = review_criteria(judged_profile(), workplace.settings)

    assert [(criterion.id, criterion.weight) for criterion in found] == [
        ("logical_flow", 0.25),
        ("consistency", 0.25),
        ("tool_relevance", 0.25),
        ("synthesis_quality", 0.25),
    ]
    assert all(len(criterion.description) > 20 for criterion in found)


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

    assert [(criterion.name, criterion.description) for criterion in found] == [
        ("Tool count", "how few tool calls each prompt takes"),
        ("Kindness", "No harsh word."),
        ("Haste", "Haste"),
    ]
    assert [criterion.weight for criterion in found] == pytest.approx([0.3, 0.6, 0.1])
    assert len(review_criteria(profile(criteria=criteria(tool_count=1)), workplace.settings)) == 1


def test_secrets_and_the_middle_of_a_long_text_are_left_out(workplace: Workplace) -> None:
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    words = " ".join(f"word{number}" for number in range(3000))
    fill(workplace, session_with_texts("s1", text=f"{secret} {words}"))
    whole = session_transcript(workplace.stores, target(workplace).session, WHOLE_TRANSCRIPT, NOW)
    short = session_transcript(workplace.stores, target(workplace).session, 1000, NOW)

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

    assert session_transcript(workplace.stores, before.session, 1000, NOW) is None
    assert session_transcript(workplace.stores, target(workplace).session, 1000, NOW) is not None
