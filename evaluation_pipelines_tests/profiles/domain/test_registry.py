"""Version rules of the registry: accepted and refused changes, and messages."""

from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import ProfileRefusedError, Registered, Registry
from evaluation_pipelines_tests.scorecard_builders import REGISTERED_AT, criteria, profile, registry

NOW = datetime(2026, 11, 20, tzinfo=UTC)
OTHER = criteria(tool_count=1)


def test_an_unknown_profile_is_registered_now() -> None:
    assert Registry().admit(profile(version=7), NOW) == Registered(profile(version=7), NOW)


def test_the_same_profile_again_changes_nothing() -> None:
    assert registry(profile()).admit(profile(), NOW) is None


def test_other_content_under_a_known_version_is_refused_with_advice() -> None:
    with pytest.raises(
        ProfileRefusedError,
        match=r"^p version 1 is refused: it is registered with other content "
        r"\(criteria.response_time, criteria.tool_count\)\. .*set it to 2",
    ):
        registry(profile()).admit(profile(criteria=OTHER), NOW)


def test_labels_name_and_enabled_may_change_under_a_known_version() -> None:
    changed = profile(name="New", match_labels=["code"], enabled=False)

    assert registry(profile()).admit(changed, NOW) == Registered(changed, REGISTERED_AT)


def test_a_higher_version_is_accepted_with_any_content() -> None:
    second = profile(version=3, criteria=OTHER)

    assert registry(profile()).admit(second, NOW) == Registered(second, NOW)


def test_a_lower_version_is_refused() -> None:
    with pytest.raises(ProfileRefusedError, match=r"version 5 is already registered.*to 6"):
        registry(profile(version=5)).admit(profile(version=4), NOW)


def test_the_file_of_an_old_version_changes_nothing() -> None:
    both = registry(profile(), profile(version=2, criteria=OTHER))

    assert both.admit(profile(name="Former name"), NOW) is None


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
    assert [each.key for each in both.newest()] == [("p", 2), ("q", 1)]


def test_the_error_for_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(ProfileError, match=r"p has no version 9; registered versions: 1, 2"):
        registry(profile(), profile(version=2)).find("p", 9)
    with pytest.raises(ProfileError, match=r"no profile x; registered profiles: p"):
        registry(profile()).find("x")
    with pytest.raises(ProfileError, match=r"no profile x; registered profiles: none"):
        Registry().find("x")
