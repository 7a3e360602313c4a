"""The sensors that raise alerts, with a webhook that receives them."""

import pytest

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines_tests.attention.test_checks import put_regressions
from evaluation_pipelines_tests.defs.code_location import CodeLocation, day, range_tags, repository
from evaluation_pipelines_tests.defs.date_failures import break_landed, fail_builds
from evaluation_pipelines_tests.judged import fill, old_session
from evaluation_pipelines_tests.receiver import Receiver

NOTHING = "alerts: none"

CHECKS, FAILED = "alerts_sensor", "failed_run_sensor"


def test_an_alert_is_posted_once(location: CodeLocation, receiver: Receiver) -> None:
    assert location.tick(CHECKS).skip_message == NOTHING
    put_regressions(location.workplace, aspen="alert")

    assert location.tick(CHECKS).skip_message == "alerts: 1 regressions"
    assert location.tick(CHECKS).skip_message == NOTHING
    (text,) = receiver.texts
    assert text.startswith("aspen got worse (label code)\n10.0 points lower since ")
    assert " (95% interval: 5.0 to 15.0 points lower). Mean automatic score: 70.0 in 30 " in text


def test_a_failed_run_is_reported_once_a_day_with_its_step_and_reason(
    location: CodeLocation, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.tick(FAILED)
    with monkeypatch.context() as broken:
        broken.setenv("EVAL_BATCH_BYTES", "no number")
        for _ in range(2):
            assert not location.execute("draw_audit_samples").success
    location.tick(FAILED)
    location.tick(FAILED)

    (text,) = receiver.texts
    assert text.startswith("Run failed: draw_audit_samples\nStep: none started (run ")
    assert "EVAL_BATCH_BYTES" in text
    config = {"ops": {"score_session": {"config": {"session": "s-0"}}}}
    job = repository().get_job("judge_session_now")
    job.execute_in_process(config, instance=location.instance, raise_on_error=False)
    location.tick(FAILED)
    text = receiver.texts[1]
    assert text.startswith("Run failed: judge_session_now\nStep: score_session (run ")
    assert "set EVAL_JUDGE_MODEL to the name of a model" in text


def test_the_alert_of_a_failed_run_ends_with_the_next_good_one_of_its_job(
    location: CodeLocation, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        with monkeypatch.context() as broken:
            broken.setenv("EVAL_BATCH_BYTES", "no number")
            assert not location.execute("draw_audit_samples").success
        location.tick(FAILED)

    def still_open() -> list[str]:
        location.tick(CHECKS)
        alerts = AlertStore(location.workplace.ledger).all()
        return [alert.alert.title for alert in alerts if alert.ended_at is None]

    location.tick(FAILED)
    fails()
    location.start("nightly_evaluation")  # another job
    assert still_open() == ["Run failed: draw_audit_samples"]
    assert location.execute("draw_audit_samples").success
    assert still_open() == []
    fails()  # on the same day: it is open again, and it is sent once
    assert still_open() == ["Run failed: draw_audit_samples"]
    assert len(receiver.texts) == 1


def test_the_alert_of_a_failed_date_lasts_until_that_date_is_done(
    location: CodeLocation, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_alerts() -> int:
        location.tick(CHECKS)
        alerts = AlertStore(location.workplace.ledger).all()
        return len([alert for alert in alerts if alert.ended_at is None])

    fill(location.workplace, old_session("a", 0), old_session("b", 1))
    location.tick(FAILED)
    with monkeypatch.context() as broken:
        broken.setenv("EVAL_BATCH_BYTES", "no number")
        assert not location.materialize_range(0, 1, "judge_scores").success
    location.tick(FAILED)
    assert len(receiver.texts) == 1
    assert location.materialize(1, "judge_scores").success
    assert open_alerts() == 1
    assert location.materialize(0, "judge_scores").success  # both are done now
    assert open_alerts() == 0


def test_a_killed_run_is_reported_unless_it_is_retried(
    location: CodeLocation, receiver: Receiver
) -> None:
    location.tick(FAILED)
    retried = location.start("nightly_evaluation", {"dagster/will_retry": "true"})
    location.instance.report_run_failed(retried, "the process is gone")
    location.tick(FAILED)
    assert receiver.texts == []

    location.kill(range_tags(day(0), day(0)))
    location.tick(FAILED)
    (text,) = receiver.texts
    assert text.startswith("Run failed: build_daily_tables\nStep: none started")
    assert "the process is gone" in text


def test_a_failed_build_is_reported_only_when_a_date_is_parked(
    location: CodeLocation, receiver: Receiver
) -> None:
    location.land(0)
    break_landed(location.workplace, 0)
    location.tick(FAILED)
    assert not location.build(0).success
    location.tick(FAILED)
    assert receiver.texts == []

    fail_builds(location.workplace, 0, times=2)
    assert not location.build(0).success
    location.tick(FAILED)
    location.tick(CHECKS)
    text, *_ = receiver.texts
    assert text.startswith("Build of 2025-02-06 failed 4 times and stopped retrying\n")
