"""Assignment of profiles and versions to sessions."""

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


def test_a_profile_for_all_labels_has_the_most_labels() -> None:
    both = profile(id="a", match_labels=["code", "*"])
    code = profile(id="b", match_labels=["code", "ops", "simple"])
    everything = profile(id="c", match_labels=["*"])

    assert ids(everything, both, code) == ["b", "a", "c"]


def test_a_disabled_profile_scores_nothing() -> None:
    assert ids(profile(enabled=False)) == []


def test_every_applicable_profile_is_assigned_and_one_is_the_best_match() -> None:
    profiles = registry(profile(id="all"), profile(id="simple", match_labels=["simple"]))
    sessions = sessions_frame(
        [
            answered(session_key="s1#baseline-1"),
            answered(session_key="s2#baseline-1", classification_label="code"),
        ]
    )

    assert assign(sessions, profiles).rows() == [
        ("default", "s1#baseline-1", "all", 1, 1, False),
        ("default", "s1#baseline-1", "simple", 1, 0, True),
        ("default", "s2#baseline-1", "all", 1, 0, True),
    ]


def test_a_session_without_a_matching_profile_has_no_assignment() -> None:
    found = assign(sessions_frame([answered()]), registry(profile(match_labels=["ops"])))

    assert found.is_empty()
    assert found.schema == ASSIGNMENTS


def versions(*history: Registered) -> dict[str, int]:
    """Return the version by session; one ended at 300 s, the other at 301 s."""
    sessions = sessions_frame(
        [
            answered(session_key="early", ended_at=at(300)),
            answered(session_key="late", ended_at=at(301)),
        ]
    )
    found = assign(sessions, Registry.of(history))
    return dict(found.select("session_key", "profile_version").iter_rows())


def test_the_first_version_applies_to_all_sessions() -> None:
    assert versions(Registered(profile(), at(10_000))) == {"early": 1, "late": 1}


def test_a_new_version_applies_to_sessions_that_ended_after_its_registration() -> None:
    first = Registered(profile(), at(0))
    # A session that ends exactly at the registration ended before it.
    second = Registered(profile(version=2), at(300))

    assert versions(first, second) == {"early": 1, "late": 2}


def test_history_is_rescored_only_on_request() -> None:
    first = Registered(profile(), at(0))
    second = Registered(profile(version=2), at(10_000), rescore_history=True)

    assert versions(first, second) == {"early": 2, "late": 2}
    third = Registered(profile(version=3), at(20_000))
    assert versions(first, second, third) == {"early": 2, "late": 2}


def test_labels_of_the_newest_version_apply_to_all_sessions() -> None:
    first = Registered(profile(match_labels=["simple"]), at(0))
    second = Registered(profile(version=2, match_labels=["ops"]), at(10_000))

    assert versions(first, second) == {}


def test_times_of_different_precision_are_compared() -> None:
    moment = datetime(2026, 11, 2, 9, 5, tzinfo=UTC) - timedelta(microseconds=1)
    second = Registered(profile(version=2), moment)

    assert versions(Registered(profile(), at(0)), second) == {"early": 2, "late": 2}
    assert pl.Series([moment]).dtype == pl.Datetime("us", "UTC")
