"""Profiles that a program sets: stored in the ledger, and used as those of files."""

from datetime import timedelta
from typing import Any

import pytest

from evaluation_pipelines.profiles.domain.profile import ProfileError, criterion_warnings
from evaluation_pipelines.profiles.domain.registry import ProfileRefusedError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import set_definition, sync_profiles
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.scorecards.calls_profile import (
    DAY,
    build,
    cards,
    profile_file,
    work,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace

LATER = NOW + timedelta(minutes=1)
SENT: dict[str, Any] = {
    "id": "mine",
    "name": "Mine",
    "matchLabels": ["simple"],
    "criteria": [{"id": "tool_count"}],
    "thresholds": {"toolCountWorst": 4},
}


def test_method_version_and_labels_have_defaults(workplace: Workplace) -> None:
    sent = {name: SENT[name] for name in ("id", "name", "criteria")}
    found = set_definition(workplace.stores, sent, NOW)
    assert (found.profile.version, found.profile.method) == (1, "heuristic")
    assert (found.profile.match_labels, found.origin) == (("mine",), "api")


def test_other_content_gets_the_next_version_and_a_retry_gets_none(workplace: Workplace) -> None:
    set_definition(workplace.stores, SENT, NOW)
    assert set_definition(workplace.stores, SENT, LATER).registered_at == NOW
    renamed = set_definition(workplace.stores, {**SENT, "name": "New name"}, LATER)
    assert (renamed.profile.version, renamed.profile.name) == (1, "New name")
    other = {**SENT, "criteria": [{"id": "response_time"}]}
    assert set_definition(workplace.stores, other, LATER).profile.version == 2
    with pytest.raises(ProfileRefusedError, match="registered with other content"):
        set_definition(workplace.stores, {**SENT, "version": 2}, LATER)


def test_builds_score_with_it_and_the_dates_that_it_concerns_are_due(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", work())
    build(workplace)
    set_definition(workplace.stores, SENT, NOW, rescore_history=True)
    assert [each.session_date for each in RebuildQueue(workplace.ledger).pending(NOW)] == [DAY]
    build(workplace, LATER)
    (card,) = cards(workplace, "mine")
    # One call of at most four: 1 - 1/4.
    assert card["overall_score"] == pytest.approx(75)


def test_it_stays_on_though_no_file_has_it(workplace: Workplace) -> None:
    set_definition(workplace.stores, SENT, NOW)
    assert sync_profiles(workplace.stores, LATER).registry.find("mine").profile.enabled


SHIPPED = "efficiency-simple"
CALLS: dict[str, Any] = {
    "id": "calls",
    "name": "Few calls",
    "criteria": [{"id": "tool_count"}],
    "thresholds": {"toolCountWorst": 10},
}
"""What ``profile_file`` writes, without labels."""


def stored(workplace: Workplace, profile_id: str = SHIPPED) -> tuple[int, str, str]:
    found = sync_profiles(workplace.stores, LATER)
    assert found.faults == ()
    newest = found.registry.find(profile_id)
    return newest.profile.version, newest.origin, newest.profile.name


def test_a_shipped_profile_gives_way_to_a_call(workplace: Workplace) -> None:
    default = sync_profiles(workplace.stores, NOW).registry.find(SHIPPED)
    assert default.origin == "shipped"
    following = default.profile.version + 1
    for sent in (SENT, {**SENT, "version": 1}):  # a retry, also with a version, changes nothing
        found = set_definition(workplace.stores, {**sent, "id": SHIPPED}, NOW)
        assert (found.profile.version, found.profile.name) == (following, "Mine")
        assert stored(workplace) == (following, "api", "Mine")
    other = {**SENT, "id": SHIPPED, "criteria": [{"id": "response_time"}]}
    with pytest.raises(ProfileRefusedError, match="registered with other content"):
        set_definition(workplace.stores, {**other, "version": following}, LATER)


def test_a_shipped_profile_gives_way_to_a_file_until_that_is_removed(workplace: Workplace) -> None:
    version, _, name = stored(workplace)
    path = profile_file(workplace)
    path.write_text(path.read_text().replace("id: calls", f"id: {SHIPPED}"))
    for _ in range(2):
        assert stored(workplace) == (version + 1, "file", "Few calls")
    path.write_text(path.read_text().replace("worst: 10", "worst: 9"))
    assert stored(workplace) == (version + 2, "file", "Few calls")
    path.unlink()
    for _ in range(2):
        assert stored(workplace) == (version + 3, "shipped", name)


def test_a_call_goes_on_where_a_file_ends(workplace: Workplace) -> None:
    profile_file(workplace)
    assert stored(workplace, "calls") == (1, "file", "Few calls")
    # The file is read again and again: a call that changes labels alone is a version, too.
    same = set_definition(workplace.stores, {**CALLS, "matchLabels": ["ops"]}, NOW)
    assert same.profile.version == 2
    found = set_definition(workplace.stores, {**SENT, "id": "calls"}, NOW)
    assert found.profile.version == 3
    assert stored(workplace, "calls") == (3, "api", "Mine")


def test_an_unknown_criterion_scores_the_midpoint_with_a_warning(workplace: Workplace) -> None:
    sent = {**SENT, "criteria": [{"id": "tool_cuont"}, {"id": "tool_count"}]}
    found = set_definition(workplace.stores, sent, NOW)
    (warning,) = criterion_warnings(found.profile)
    assert "tool_cuont is unknown and scores the midpoint. Did you mean tool_count?" in warning
    workplace.land("logs.jsonl", work())
    build(workplace)
    (card,) = cards(workplace, "mine")
    # Half of 100 for the unknown one, 1 - 1/4 for one call of at most four: (50 + 75) / 2.
    assert card["overall_score"] == pytest.approx(62.5)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"criteria": []}, "needs criteria"),
        ({"id": "No Id"}, "id: "),
        ({"unknown": 1}, "unknown: "),
        ({"matchLabels": []}, "match_labels"),
    ],
)
def test_what_is_no_profile_is_refused_and_nothing_is_stored(
    workplace: Workplace, change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ProfileError, match=problem):
        set_definition(workplace.stores, {**SENT, **change}, NOW)
    known = ProfileStore(workplace.ledger).registry().newest()
    assert {each.origin for each in known} == {"shipped"}
