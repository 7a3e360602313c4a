"""Profiles that a program sets: stored in the ledger, and used as those of files."""

from datetime import timedelta
from typing import Any

import pytest

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import ProfileHeldError, ProfileRefusedError
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


def test_the_id_of_a_file_is_refused_also_before_the_file_is_registered(
    workplace: Workplace,
) -> None:
    profile_file(workplace)
    with pytest.raises(ProfileHeldError, match="calls is that of a file"):
        set_definition(workplace.stores, {**SENT, "id": "calls", "version": 2}, NOW)
    with pytest.raises(ProfileHeldError, match="is that of a file"):
        set_definition(workplace.stores, {**SENT, "id": _shipped(workplace)}, NOW)


def test_a_file_with_its_id_is_a_fault_and_changes_nothing(workplace: Workplace) -> None:
    set_definition(workplace.stores, {**SENT, "id": "calls"}, NOW)
    profile_file(workplace, version=2)
    synced = sync_profiles(workplace.stores, LATER)
    assert ["calls was set by a program" in each for each in synced.faults] == [True]
    assert synced.registry.find("calls").profile.name == "Mine"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"criteria": []}, "needs criteria"),
        ({"criteria": [{"id": "tool_cuont"}]}, "did you mean tool_count"),
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
    assert {each.origin for each in known} == {"file"}


def _shipped(workplace: Workplace) -> str:
    return ProfileStore(workplace.ledger).registry().newest()[0].profile.id
