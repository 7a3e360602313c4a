"""Ledger stores of scorecards: no duplicates, no losses, dates due when they should be."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from evaluation_pipelines.profiles.domain.registry import ProfileRefusedError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas.scorecards import Announced, Announcement
from evaluation_pipelines.scorecards.domain.overrides import OVERRIDE_ROWS
from evaluation_pipelines.scorecards.store import (
    AuditSample,
    EventStore,
    NewOverride,
    OverrideStore,
    newest_round,
    note_step,
    shown_to_others,
)
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue, ScheduledRebuilds
from evaluation_pipelines_tests.world.scorecards import (
    criteria,
    judged_profile,
    new_override,
    profile,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = date(2026, 11, 19)


def new(score: float = 20.0, **fields: Any) -> NewOverride:
    return new_override(score, **({"session_key": "s1", "session_date": DAY} | fields))


def sample(session_key: str = "s1") -> AuditSample:
    return AuditSample(DAY, "default", session_key, "p", "0", NOW)


def event(number: int, day: date = DAY) -> Announcement:
    return Announcement(f"id-{number}", "evaluation.kind", day, "default", "s1", None, 50.0, "{}")


def due(ledger: Ledger) -> list[date]:
    return [queued_date.session_date for queued_date in RebuildQueue(ledger).pending(NOW)]


def test_profiles_come_back_as_they_were_registered(ledger: Ledger) -> None:
    whole = judged_profile(disqualifiers=["é"], frozen_until="2026-12-01T00:00:00Z")
    ProfileStore(ledger).register(whole, NOW)
    (found,) = ProfileStore(ledger).registry().versions

    assert (found.profile, found.registered_at, found.rescore_history) == (whole, NOW, False)


def test_what_may_change_freely_changes_in_place_and_a_refused_profile_nothing(
    ledger: Ledger,
) -> None:
    store, later = ProfileStore(ledger), NOW + timedelta(days=1)
    store.register(profile(), NOW)
    with pytest.raises(ProfileRefusedError):
        store.register(profile(criteria=criteria(tool_count=1)), NOW)
    assert [version.profile for version in store.registry().versions] == [profile()]
    assert store.register(profile(name="New"), later, rescore_history=True)
    (found,) = store.registry().versions
    assert (found.profile.name, found.registered_at, found.rescore_history) == ("New", NOW, True)
    assert store.register(profile(name="New"), later) is None


def test_an_override_makes_its_date_due_in_the_same_step(ledger: Ledger) -> None:
    assert OverrideStore(ledger).add([new()], NOW) == [1]

    assert due(ledger) == [DAY]
    (row,) = OverrideStore(ledger).of_dates([DAY]).rows(named=True)
    assert (row["override_id"], row["override_score"], row["made_at"]) == (1, 20, NOW)


def test_overrides_are_all_kept_and_found_by_date(ledger: Ledger) -> None:
    other = DAY - timedelta(days=1)
    OverrideStore(ledger).add([new(), new(30.0)], NOW)
    OverrideStore(ledger).add([new(session_date=other)], NOW)

    assert OverrideStore(ledger).of_dates([DAY])["override_score"].to_list() == [20, 30]
    assert OverrideStore(ledger).of_dates().height == 3
    assert OverrideStore(ledger).of_dates([]).schema == OVERRIDE_ROWS
    assert OverrideStore(ledger).add([], NOW) == []


def test_a_sample_is_stored_once_and_an_audit_answers_it(ledger: Ledger) -> None:
    assert OverrideStore(ledger).add_samples([sample(), sample("s2")]) == 2
    assert OverrideStore(ledger).add_samples([sample()]) == 0
    assert OverrideStore(ledger).add_samples([]) == 0

    OverrideStore(ledger).add([new()], NOW)  # an override by choice is no answer
    (answer,) = OverrideStore(ledger).add([new(source="audit")], NOW)
    OverrideStore(ledger).add([new(source="audit")], NOW)
    assert {
        audit_sample.session_key: audit_sample.override_id
        for audit_sample in OverrideStore(ledger).samples()
    } == {
        "s1": answer,
        "s2": None,
    }


def test_a_sample_has_one_answer_and_a_later_one_is_an_override_by_choice(ledger: Ledger) -> None:
    store = OverrideStore(ledger)
    store.add_samples([sample()])
    first, is_first = store.answer(new(), NOW)
    second, is_second = store.answer(new(annotator="Bo"), NOW)

    assert (is_first, is_second) == (True, False)
    assert [audit_sample.override_id for audit_sample in store.samples()] == [first]
    rows = store.of_dates().select("override_id", "source", "annotator").rows()
    assert rows == [(first, "audit", "Ada"), (second, "person", "Bo")]
    assert due(ledger) == [DAY]


def test_an_answer_is_for_the_sample_of_its_own_organization(ledger: Ledger) -> None:
    store = OverrideStore(ledger)
    store.add_samples([sample(), replace(sample(), organization_id="beta")])
    answer, _ = store.answer(new(), NOW)

    answers = {
        audit_sample.organization_id: audit_sample.override_id for audit_sample in store.samples()
    }
    assert answers == {"default": answer, "beta": None}


def at_once(url: str, work: Callable[[Ledger], object]) -> None:
    """Do the same with two ledgers at the same time."""
    both, go = [open_ledger(url), open_ledger(url)], threading.Barrier(2)

    def begin(ledger: Ledger) -> None:
        go.wait()
        work(ledger)

    threads = [threading.Thread(target=begin, args=(ledger,)) for ledger in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ledger in both:
        ledger.close()


def test_two_reviewers_at_the_same_time_give_one_answer(url: str, ledger: Ledger) -> None:
    keys = [f"s{number}" for number in range(20)]
    OverrideStore(ledger).add_samples([sample(key) for key in keys])
    answers: list[bool] = []

    def answer(mine: Ledger) -> None:
        answers.extend(OverrideStore(mine).answer(new(session_key=key), NOW)[1] for key in keys)

    at_once(url, answer)
    assert Counter(answers) == {True: 20, False: 20}
    sources = OverrideStore(ledger).of_dates()["source"].to_list()
    assert Counter(sources) == {"audit": 20, "person": 20}


def test_two_runs_at_the_same_time_record_an_event_once(url: str, ledger: Ledger) -> None:
    events = [event(number) for number in range(200)]
    at_once(url, lambda mine: EventStore(mine).record(DAY, events, NOW))
    assert len(EventStore(ledger).after(0, 1000)) == 200


def test_a_reason_is_added_to_an_answer(ledger: Ledger) -> None:
    store = OverrideStore(ledger)
    override_id, _ = store.answer(new(), NOW)
    store.explain(override_id, new(reason="too kind", criterion_id="tool_count"), NOW)

    (row,) = store.of_dates().rows(named=True)
    assert (row["reason"], row["criterion_id"]) == ("too kind", "tool_count")
    assert (row["override_score"], row["made_at"]) == (20, NOW)


def test_rounds_of_reviewers_are_apart_and_a_new_one_forgets_what_was_skipped(
    ledger: Ledger,
) -> None:
    later = NOW + timedelta(hours=1)
    assert newest_round(ledger, "Ada") is None
    note_step(ledger, "Ada", "begin", NOW)
    note_step(ledger, "Ada", "skip", NOW, ("default", "s1"))
    note_step(ledger, "Bo", "begin", later)

    assert newest_round(ledger, "Ada") == (NOW, frozenset({("default", "s1")}))
    assert newest_round(ledger, "Bo") == (later, frozenset())
    note_step(ledger, "Ada", "begin", later)
    assert newest_round(ledger, "Ada") == (later, frozenset())


def test_a_session_is_with_another_reviewer_until_the_next_step_or_some_time(
    ledger: Ledger,
) -> None:
    session = ("default", "s1")
    note_step(ledger, "Ada", "begin", NOW)
    note_step(ledger, "Ada", "show", NOW, session)

    assert shown_to_others(ledger, "Bo", NOW) == {session}
    assert shown_to_others(ledger, "Ada", NOW) == frozenset()
    assert shown_to_others(ledger, "Bo", NOW + timedelta(seconds=1)) == frozenset()
    note_step(ledger, "Bo", "show", NOW, session)
    assert shown_to_others(ledger, "Ada", NOW) == {session}
    note_step(ledger, "Ada", "skip", NOW, session)
    assert shown_to_others(ledger, "Bo", NOW) == frozenset()


def test_an_event_is_recorded_once(ledger: Ledger) -> None:
    events = EventStore(ledger)
    assert events.record(DAY, [event(1), event(2)], NOW).events == (event(1), event(2))
    assert events.record(DAY, [event(1), event(2), event(3)], NOW).events == (event(3),)
    assert events.record(DAY, [], NOW) == Announced()

    assert [evaluation_event.event_id for evaluation_event in events.after(0, 10)] == [
        "id-1",
        "id-2",
        "id-3",
    ]


def test_all_of_many_events_are_recorded_and_the_first_are_shown(ledger: Ledger) -> None:
    many = [event(number) for number in range(10_001)]  # one more than a transaction has
    recorded = EventStore(ledger).record(DAY, iter(many), NOW)

    assert recorded == Announced(tuple(many[:50]), Counter({many[0].kind: 10_001}))
    assert len(EventStore(ledger).after(0, 20_000)) == 10_001


def test_events_are_read_from_a_position(ledger: Ledger) -> None:
    events = EventStore(ledger)
    events.record(DAY, [event(number) for number in range(5)], NOW)
    first = events.after(0, 2)
    rest = events.after(first[-1].position, 10)

    assert [evaluation_event.event_id for evaluation_event in (*first, *rest)] == [
        f"id-{n}" for n in range(5)
    ]
    assert len(events.of_kind("evaluation.kind", first[-1].position, DAY)) == 3
    assert events.of_kind("evaluation.kind", 0, DAY + timedelta(days=1)) == []
    assert events.of_kind("evaluation.other", 0, DAY) == []


def test_a_date_wakes_once_at_the_time_it_was_given_last_or_not_at_all(ledger: Ledger) -> None:
    rebuilds, later = ScheduledRebuilds(ledger), NOW + timedelta(hours=1)
    rebuilds.expect(DAY, NOW)
    assert rebuilds.wake(NOW - timedelta(seconds=1)) == due(ledger) == []
    assert rebuilds.wake(NOW) == due(ledger) == [DAY]
    assert rebuilds.wake(NOW) == []
    rebuilds.expect(DAY, NOW)
    rebuilds.expect(DAY, later)
    assert rebuilds.wake(NOW) == []
    rebuilds.expect(DAY, None)
    assert rebuilds.wake(later) == []
