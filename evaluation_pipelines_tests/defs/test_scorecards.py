"""Scorecards in the code location: events, audit sample, calibration check, scheduled rebuilds."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import dagster as dg

from evaluation_pipelines.defs.daily_tables import MAX_OBSERVATIONS, Observations, event_counts
from evaluation_pipelines.schemas.scorecards import Announced, Announcement
from evaluation_pipelines.scorecards.overrides import HumanVerdict, override
from evaluation_pipelines.scorecards.scorecard_queries import find_target
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue, ScheduledRebuilds
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    check_texts,
    day,
)
from evaluation_pipelines_tests.defs.date_failures import queued_dates
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.world import NOON_NS, session


def observed(location: CodeLocation) -> list[tuple[str | None, str | None]]:
    """Return kind and partition of every observed event of effective scores, oldest first."""
    key = dg.AssetKey("session_evaluations")
    records = location.instance.fetch_observations(key, limit=100).records
    found = [record.asset_observation for record in records]
    return [
        (observation.description, observation.partition)
        for observation in reversed(found)
        if observation is not None
    ]


def correct(location: CodeLocation, number: int, score: float) -> None:
    """Override the score of the session of a day."""
    stores = location.workplace.stores
    target = find_target(stores, SessionName(f"s-{number}"))
    override(stores, target, HumanVerdict(score, "Ada", "because"), "person", datetime.now(UTC))


def test_every_new_score_is_an_event_of_the_asset_and_only_once(location: CodeLocation) -> None:
    location.land(0, 1)
    location.build(0, 1)
    feedback = "evaluation.model_feedback"
    assert observed(location) == [(feedback, str(day(0))), (feedback, str(day(1)))]

    location.build(0, 1)
    assert len(observed(location)) == 2


def test_an_override_makes_its_date_due(location: CodeLocation) -> None:
    location.land(0, 1)
    location.build(0, 1)
    assert location.request_count("touched_dates_sensor") == 0
    correct(location, 1, 5)
    assert location.run_requested("touched_dates_sensor").success

    assert observed(location)[2:] == [
        ("evaluation.model_feedback", str(day(1))),
        ("evaluation.quality_risk", str(day(1))),
    ]
    assert queued_dates(location.workplace)[day(1)].is_built


def announced(count: int) -> Announced:
    events = (
        Announcement(f"id-{n}", "kind", day(0), "default", f"s-{n}", None, 50.0, '{"a": 1}')
        for n in range(count)
    )
    return Announced(tuple(events), Counter({"kind": count}))


def test_a_run_observes_events_up_to_a_number_and_counts_the_others() -> None:
    observations = Observations("session_evaluations")

    few = observations.of(announced(MAX_OBSERVATIONS - 1))
    assert len(few) == MAX_OBSERVATIONS - 1
    assert few[0].metadata["session_key"].value == "s-0"
    assert few[0].metadata["payload"].value == {"a": 1}

    assert observations.of(announced(2)) == []
    assert {name: count.value for name, count in event_counts(announced(2)).items()} == {
        "new kind": 2
    }

    assert len(observations.of(announced(1))) == 1


def test_a_session_that_ends_by_silence_is_scored_without_new_telemetry(
    location: CodeLocation,
) -> None:
    workplace = location.workplace
    now = datetime.now(UTC)
    second = now.timestamp() - NOON_NS / 1e9 - 5
    workplace.land("logs.jsonl", session("open", second))
    workplace.ingest()
    assert location.run_requested("touched_dates_sensor").success
    assert location.request_count("touched_dates_sensor") == 0

    today = RebuildQueue(workplace.ledger).all()[0].session_date
    ScheduledRebuilds(workplace.ledger).expect(
        today, now - timedelta(seconds=1)
    )  # the half hour is over
    assert location.requested_ranges("touched_dates_sensor") == [(today, today)]


def test_the_audit_sample_of_yesterday_is_drawn_once(location: CodeLocation) -> None:
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    second = (noon - timedelta(days=1)).timestamp() - NOON_NS / 1e9
    location.workplace.land(
        "logs.jsonl", b"".join(session_with_texts(f"y{n}", second + n) for n in range(7))
    )
    location.workplace.ingest()
    location.run_requested("touched_dates_sensor")
    for _ in range(2):
        assert location.execute("draw_audit_samples").success

    samples = OverrideStore(location.workplace.ledger).samples()
    assert len(samples) == 5
    assert {sample.session_date for sample in samples} == {(noon - timedelta(days=1)).date()}


def test_corrections_in_one_direction_warn(location: CodeLocation) -> None:
    """From how many on is tested with the calibration."""
    location.land(*range(9))
    location.build(0, 8)
    for number in range(9):
        correct(location, number, 1)
    location.run_checks("scorecards", "profiles_are_calibrated")
    check = location.check("scorecards", "profiles_are_calibrated")

    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    shown = check_texts(check)
    assert "9 of 9 corrections" in str(shown["found"])
    assert "chosen" in str(shown["agreement, automatic minus human"])


def test_a_broken_profile_warns_and_the_date_is_published(location: CodeLocation) -> None:
    folder = location.workplace.settings.profiles_dir
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("id: [")
    location.land(0)
    assert location.build(0).success

    check = location.check("scorecards", "profiles_are_sound")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "broken.yaml is not YAML" in str(check_texts(check)["examples"])
    assert location.materialized("scorecards") == [day(0)]
