"""Which profile scores which session, and in which version."""

from datetime import UTC, datetime, timedelta

import polars as pl

from evaluation_pipelines.profiles.domain.matching import ASSIGNMENTS, assign, ranked
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registered, Registry
from evaluation_pipelines_tests.builders import at, sessions_frame
from evaluation_pipelines_tests.scorecard_builders import answered, profile, registry


def ids(*profiles: JudgeProfile, label: str = "code") -> list[str]:
    return [each.id for each in ranked(profiles, label)]


def test_a_profile_that_lists_the_label_comes_before_one_for_all() -> None:
    everything = profile(id="a", match_labels=["*"], version=9)
    code = profile(id="b", match_labels=["code"])

    assert ids(everything, code) == ["b", "a"]
    assert ids(everything, code, label="research") == ["a"]


def test_fewest_labels_then_highest_version_then_id_decide() -> None:
    wide = profile(id="a", match_labels=["code", "simple", "ops"], version=9)
    narrow = profile(id="z", match_labels=["code", "ops"])
    newer = profile(id="y", match_labels=["code", "ops"], version=2)
    same = profile(id="b", match_labels=["code", "ops"])

    assert ids(wide, narrow, newer, same) == ["y", "b", "z", "a"]


def test_one_that_also_takes_all_has_the_most_labels() -> None:
    both = profile(id="a", match_labels=["code", "*"])
    code = profile(id="b", match_labels=["code", "ops", "simple"])
    everything = profile(id="c", match_labels=["*"])

    assert ids(everything, both, code) == ["b", "a", "c"]


def test_what_is_switched_off_scores_nothing() -> None:
    assert ids(profile(enabled=False)) == []


def test_every_profile_that_applies_is_assigned_and_one_is_the_best() -> None:
    profiles = registry(profile(id="all"), profile(id="simple", match_labels=["simple"]))
    sessions = sessions_frame(
        [
            answered(session_key="s1#baseline-1"),
            answered(session_key="s2#baseline-1", classification_label="code"),
        ]
    )

    assert assign(sessions, profiles).rows() == [
        ("default", "s1#baseline-1", "all", 1, False),
        ("default", "s1#baseline-1", "simple", 1, True),
        ("default", "s2#baseline-1", "all", 1, True),
    ]


def test_a_session_that_no_profile_matches_is_assigned_nothing() -> None:
    found = assign(sessions_frame([answered()]), registry(profile(match_labels=["ops"])))

    assert found.is_empty()
    assert found.schema == ASSIGNMENTS


def versions(*history: Registered) -> dict[str, int]:
    """Version by session, of one that ended at 300 s and one that ended at 301 s."""
    sessions = sessions_frame(
        [
            answered(session_key="early", ended_at=at(300)),
            answered(session_key="late", ended_at=at(301)),
        ]
    )
    found = assign(sessions, Registry.of(history))
    return dict(found.select("session_key", "profile_version").iter_rows())


def test_the_first_version_counts_for_all_sessions_whenever_it_came() -> None:
    assert versions(Registered(profile(), at(10_000))) == {"early": 1, "late": 1}


def test_a_new_version_counts_for_sessions_that_ended_after_it_came() -> None:
    first = Registered(profile(), at(0))
    # Registered at 300 s: what ended at that very moment ended before.
    second = Registered(profile(version=2), at(300))

    assert versions(first, second) == {"early": 1, "late": 2}


def test_history_is_scored_again_only_when_asked() -> None:
    first = Registered(profile(), at(0))
    second = Registered(profile(version=2), at(10_000), rescore_history=True)

    assert versions(first, second) == {"early": 2, "late": 2}
    third = Registered(profile(version=3), at(20_000))
    assert versions(first, second, third) == {"early": 2, "late": 2}


def test_labels_of_the_newest_version_count_for_all() -> None:
    first = Registered(profile(match_labels=["simple"]), at(0))
    second = Registered(profile(version=2, match_labels=["ops"]), at(10_000))

    assert versions(first, second) == {}


def test_times_are_compared_whatever_their_precision() -> None:
    moment = datetime(2026, 11, 2, 9, 5, tzinfo=UTC) - timedelta(microseconds=1)
    second = Registered(profile(version=2), moment)

    assert versions(Registered(profile(), at(0)), second) == {"early": 2, "late": 2}
    assert pl.Series([moment]).dtype == pl.Datetime("us", "UTC")
