"""Version rules of the registry: accepted and refused changes, and messages."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError
from evaluation_pipelines.profiles.domain.registry import (
    ASSIGNMENTS,
    CARD_VERSION,
    ProfileRefusedError,
    Registered,
    Registry,
    assign,
    ranked,
)
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines_tests.world.rows import at, sessions_frame
from evaluation_pipelines_tests.world.scorecards import (
    REGISTERED_AT,
    answered,
    criteria,
    profile,
    registered,
    registry,
)

NOW = datetime(2026, 11, 20, tzinfo=UTC)
OTHER = criteria(tool_count=1)


SECOND = profile(version=2, criteria=OTHER)
CHANGED = profile(name="New", match_labels=["code"], enabled=False)


@pytest.mark.parametrize(
    ("known", "admitted", "expected"),
    [
        ([], profile(version=7), Registered(profile(version=7), NOW)),
        ([profile()], profile(), None),
        # Labels, name and enabled may change under a known version, content may not.
        ([profile()], CHANGED, Registered(CHANGED, REGISTERED_AT)),
        ([profile()], SECOND, Registered(SECOND, NOW)),
        # The file of an old version changes nothing.
        ([profile(), SECOND], profile(name="Former name"), None),
    ],
)
def test_a_profile_is_registered_or_changes_nothing(
    known: list[JudgeProfile], admitted: JudgeProfile, expected: Registered | None
) -> None:
    assert registry(*known).admit(admitted, NOW) == expected


@pytest.mark.parametrize(
    ("known", "admitted", "message"),
    [
        (
            profile(),
            profile(criteria=OTHER),
            r"^p version 1 is refused: it .* with other content \(criteria\)\. .*set it to 2",
        ),
        (profile(version=5), profile(version=4), r"version 5 is already registered.*to 6"),
    ],
)
def test_other_content_and_a_lower_version_are_refused_with_advice(
    known: JudgeProfile, admitted: JudgeProfile, message: str
) -> None:
    with pytest.raises(ProfileRefusedError, match=message):
        registry(known).admit(admitted, NOW)


def test_a_frozen_profile_accepts_no_new_version() -> None:
    frozen = registry(profile(frozen_until="2026-11-21T00:00:00Z"))
    # Not even a version whose file has no freeze.
    new = profile(version=2, criteria=OTHER)

    with pytest.raises(ProfileRefusedError, match=r"version 1 is frozen until 2026-11-21 00:00"):
        frozen.admit(new, NOW)
    assert frozen.admit(new, NOW + timedelta(days=1)) == Registered(new, NOW + timedelta(days=1))
    assert frozen.admit(profile(name="New"), NOW) is not None


def test_rescoring_of_history_can_be_requested_later() -> None:
    known = registry(profile())

    again = known.admit(profile(), NOW, rescore_history=True)
    assert again == Registered(profile(), REGISTERED_AT, rescore_history=True)
    assert Registry.of([again]).admit(profile(), NOW) is None  # and is kept


def test_a_profile_is_found_by_id_and_version() -> None:
    both = registry(profile(), profile(version=2, criteria=OTHER), profile(id="q"))

    assert both.find("p").key == ("p", 2)
    assert both.find("p", 1).key == ("p", 1)
    assert [version.key for version in both.newest()] == [("p", 2), ("q", 1)]


def test_the_error_for_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(ProfileError, match=r"p has no version 9\. Registered versions: 1, 2"):
        registry(profile(), profile(version=2)).find("p", 9)
    with pytest.raises(ProfileError, match=r"no profile x\. Registered profiles: p"):
        registry(profile()).find("x")
    with pytest.raises(ProfileError, match=r"no profile x\. Registered profiles: none"):
        Registry().find("x")


NO_CARDS = SCORECARDS.no_rows.select(CARD_VERSION)


def ids(*profiles: JudgeProfile) -> list[str]:
    return [judge_profile.id for judge_profile in ranked(registered(*profiles), "code")]


def listing(name: str, *labels: str, **columns: Any) -> JudgeProfile:
    return profile(id=name, match_labels=[*labels], **columns)


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [
        # One that lists the label comes before one for all, which has the most labels.
        ([listing("a", "*", version=9), listing("b", "code")], "ba"),
        ([listing("a", "*", version=9), listing("b", "research")], "a"),
        (
            [
                listing("c", "*"),
                listing("a", "code", "*"),
                listing("b", "code", "ops", "simple"),
            ],
            "bac",
        ),
        # Fewest labels, then the highest version, then the id decide.
        (
            [
                listing("a", "code", "simple", "ops", version=9),
                listing("z", "code", "ops"),
                listing("y", "code", "ops", version=2),
                listing("b", "code", "ops"),
            ],
            "ybza",
        ),
        ([profile(enabled=False)], ""),
    ],
)
def test_the_best_match_comes_first(profiles: list[JudgeProfile], expected: str) -> None:
    assert ids(*profiles) == [*expected]


def test_every_applicable_profile_is_assigned_and_one_is_the_best_match() -> None:
    profiles = registry(profile(id="all"), profile(id="simple", match_labels=["simple"]))
    sessions = sessions_frame(
        [
            answered(session_key="s1#baseline-1"),
            answered(session_key="s2#baseline-1", classification_label="code"),
        ]
    )

    assert assign(sessions, profiles, NO_CARDS).rows() == [
        ("default", "s1#baseline-1", "all", 1, 1, False),
        ("default", "s1#baseline-1", "simple", 1, 0, True),
        ("default", "s2#baseline-1", "all", 1, 0, True),
    ]


def test_a_session_without_a_matching_profile_has_no_assignment() -> None:
    found = assign(sessions_frame([answered()]), registry(profile(match_labels=["ops"])), NO_CARDS)

    assert found.is_empty()
    assert found.schema == ASSIGNMENTS


def test_a_profile_of_the_user_comes_before_a_shipped_one_for_as_many_labels() -> None:
    default = Registered(profile(id="a", version=9), at(0), origin="shipped")
    mine = Registered(profile(id="b"), at(0))
    narrow = Registered(profile(id="c", match_labels=["code"]), at(0), origin="shipped")

    assert [judge_profile.id for judge_profile in ranked([default, mine, narrow], "code")] == [
        "c",
        "b",
        "a",
    ]


def versions(*history: Registered) -> dict[str, int]:
    """Return the version of sessions: without a card, with one by version 1 or 2, a placeholder."""
    names = ("late", "one", "two", "placeholder", "grown")
    sessions = sessions_frame([answered(session_key=name, content_hash="now") for name in names])
    cards = pl.DataFrame(
        [
            ("default", "one", "now", "p", 1, False),
            ("default", "two", "now", "p", 1, False),
            ("default", "two", "now", "p", 2, False),
            ("default", "placeholder", "now", "p", 1, True),
            ("default", "grown", "before", "p", 1, False),
            ("default", "late", "now", "other", 1, False),
        ],
        NO_CARDS.schema,
        orient="row",
    )
    found = assign(sessions, Registry.of(history), cards)
    return dict(found.select("session_key", "profile_version").iter_rows())


def test_the_newest_version_scores_what_has_no_card_and_cards_keep_theirs() -> None:
    first, second, third = (
        Registered(profile(version=version), at(version)) for version in (1, 2, 3)
    )
    kept = {"one": 1, "two": 2}
    rest = ("late", "placeholder", "grown")

    assert versions(first) == dict.fromkeys(("late", "one", "two", "placeholder", "grown"), 1)
    assert versions(first, second) == kept | dict.fromkeys(rest, 2)
    assert versions(first, second, third) == kept | dict.fromkeys(rest, 3)


def test_history_is_rescored_only_on_request() -> None:
    first, third = Registered(profile(), at(0)), Registered(profile(version=3), at(3))
    second = Registered(profile(version=2), at(2), rescore_history=True)

    expected = {"one": 2, "two": 2, "late": 3, "placeholder": 3, "grown": 3}
    assert versions(first, second, third) == expected


def test_labels_of_the_newest_version_apply_to_all_sessions() -> None:
    first = Registered(profile(match_labels=["simple"]), at(0))
    second = Registered(profile(version=2, match_labels=["ops"]), at(10_000))

    assert versions(first, second) == {}
