"""Overrides: what they are for, when they count and when they are stale."""

from datetime import datetime

import pytest

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.scorecards.overrides import HumanVerdict, override
from evaluation_pipelines.scorecards.scorecard_queries import find_target
from evaluation_pipelines.scorecards.store import EventStore, OverrideStore
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.scorecards.calls_profile import (
    DAY,
    PROFILE,
    build,
    cards,
    evaluation,
    work,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import claude, line


def correct(workplace: Workplace, score: float | None, now: datetime = NOW) -> None:
    sync_profiles(workplace.stores, now)
    target = find_target(workplace.stores, SessionName("s1"))
    override(workplace.stores, target, HumanVerdict(score, "Ada", "because"), "person", now)


def test_an_override_counts_with_the_next_build_and_keeps_the_automatic_score(
    scored: Workplace,
) -> None:
    correct(scored, 20)
    assert RebuildQueue(scored.ledger).pending(NOW)[0].session_date == DAY
    build(scored)

    (card,) = cards(scored)
    assert (card["overall_score"], card["effective_score"]) == (pytest.approx(90), 20)
    assert (card["human_override"]["annotator"], card["scored_at"]) == ("Ada", NOW)
    row = evaluation(scored)
    assert (row["effective_100"], row["effective_source"]) == (20, "override")
    assert row["quality_risk"] is True
    # The new score is low: one feedback event before, a feedback and a risk event now.
    assert len(EventStore(scored.ledger).after(0, 100)) == 3


def test_an_override_is_stale_when_the_session_has_grown(scored: Workplace) -> None:
    correct(scored, 20)
    scored.land("more.jsonl", work(second=60))
    build(scored)

    row = evaluation(scored)
    assert row["effective_source"] == "scorecard"
    new = next(each for each in cards(scored) if each["card_id"] == row["card_id"])
    assert new["human_override"]["stale"] is True
    old = next(each for each in cards(scored) if each["card_id"] != row["card_id"])
    assert (old["human_override"]["stale"], old["effective_score"]) == (False, 20)


def test_a_confirmation_is_an_override_equal_to_the_score(scored: Workplace) -> None:
    correct(scored, None)
    (row,) = OverrideStore(scored.ledger).of_dates([DAY]).rows(named=True)

    assert row["is_confirmation"] is True
    assert row["override_score"] == row["automatic_score"] == pytest.approx(90)


def test_an_unknown_name_is_an_error(scored: Workplace) -> None:
    sync_profiles(scored.stores, NOW)
    stores = scored.stores

    with pytest.raises(SessionNotFoundError, match="There is no session s9"):
        find_target(stores, SessionName("s9"))
    with pytest.raises(SessionNotFoundError, match="There is no session s1"):
        find_target(stores, SessionName("s1", organization="other"))
    with pytest.raises(ProfileError, match="There is no profile nope"):
        find_target(stores, SessionName("s1", profile="nope"))
    with pytest.raises(ProfileError, match="incident-llm does not score s1, whose label is simple"):
        find_target(stores, SessionName("s1", profile="incident-llm"))


def test_a_session_of_two_organizations_is_found_by_naming_one(workplace: Workplace) -> None:
    lines = [
        line(claude("user_prompt", 0, session__id="s1"), organization__id=name)
        for name in ("a", "b")
    ]
    workplace.land("logs.jsonl", b"".join(lines))
    build(workplace)
    sync_profiles(workplace.stores, NOW)

    with pytest.raises(SessionNotFoundError, match=r"add --organization \(a, b\)"):
        find_target(workplace.stores, SessionName("s1"))
    target = find_target(workplace.stores, SessionName("s1#baseline-1", organization="b"))
    assert target.session["organization_id"] == "b"


def test_without_a_matching_profile_an_override_is_an_error(workplace: Workplace) -> None:
    off = PROFILE.format(version=2, worst=9, label="'*'", more="enabled: false")
    folder = workplace.settings.profiles_dir
    folder.mkdir(parents=True)
    (folder / "g.yaml").write_text(off.replace("id: calls", "id: general-performance"))
    workplace.land("logs.jsonl", work(label="research"))
    build(workplace)

    row = evaluation(workplace)
    assert (row["profile_id"], row["reason"]) == (None, "no profile matches its label")
    sync_profiles(workplace.stores, NOW)
    with pytest.raises(ProfileError, match="no profile matches s1, whose label is research"):
        find_target(workplace.stores, SessionName("s1"))
