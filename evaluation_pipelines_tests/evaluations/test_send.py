"""Evaluations go out once, also past failures, kills and refusals."""

import base64
import hmac
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evaluation_pipelines.attention.gather import gather
from evaluation_pipelines.defs.alerts import evaluations_sensor
from evaluation_pipelines.evaluations import post
from evaluation_pipelines.evaluations.deliveries import Deliveries
from evaluation_pipelines.evaluations.outbox import note_changes
from evaluation_pipelines.evaluations.send import Sent, retry_refused, send_evaluations
from evaluation_pipelines.scorecards.overrides import HumanVerdict, override
from evaluation_pipelines.scorecards.scorecard_queries import find_target
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.service import keep_current
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.settings import SettingsError, load_settings
from evaluation_pipelines.settings.service import Webhook
from evaluation_pipelines_tests.evaluations.conftest import draw_for_review, named, records
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.receiver import Receiver, Reply
from evaluation_pipelines_tests.workplace import NOW, Workplace

ALL = {
    # Points of 25 by the judge. 4 * 17 = 68, 4 * 18 = 72, 4 * 14 = 56, 4 * 15 = 60.
    "judge.total": (64, None),
    "judge.logical_flow": (17, None),
    "judge.consistency": (18, None),
    "judge.tool_relevance": (14, None),
    "judge.synthesis_quality": (15, None),
    "failure_tag.missed_available_tool": (None, "fail"),
    "scorecard.logical_flow": (68, None),
    "scorecard.consistency": (72, None),
    "scorecard.tool_relevance": (pytest.approx(56), None),
    "scorecard.synthesis_quality": (60, None),
    "scorecard.performance.composite": (60, None),
    "scorecard.tool_effectiveness": (50, None),
    "session.effective": (59.5, "pass"),
}


def send(judged: Workplace, now: datetime = NOW, **settings: Any) -> list[Sent]:
    """Send at a time, with other settings."""
    return send_evaluations(judged.with_settings(**settings).stores, lambda: now)


def correct(judged: Workplace, score: float, session: str = "s1", source: str = "person") -> None:
    """Score a session as Ada, who says why."""
    stores = judged.stores
    target = find_target(stores, SessionName(session))
    override(stores, target, HumanVerdict(score, "Ada", "It broke the build."), source, NOW)
    judged.build()


def test_each_score_criterion_tag_and_override_goes_out_once(
    judged: Workplace, endpoint: Receiver
) -> None:
    assert send(judged) == [Sent("otlp", 2, 0, None)]
    assert send(judged) == [Sent("otlp", 0, 0, None)]

    ((path, kind, _),) = endpoint.requests
    assert (path, kind) == ("/v1/logs", "application/x-protobuf")
    assert named(endpoint.bodies[0]) == named(endpoint.bodies[0], "s2") == ALL
    found = {record["gen_ai.evaluation.name"]: record for record in records(endpoint.bodies[0])}
    total, effective = found["judge.total"], found["session.effective"]
    assert {record["event_name"] for record in found.values()} == {"gen_ai.evaluation.result"}
    assert effective["gen_ai.conversation.id"] == effective["session.id"] == "s2"
    assert total["gen_ai.evaluation.evaluator.id"] == "judge-1"
    assert total["gen_ai.evaluation.evaluator.type"] == "llm"
    assert total["gen_ai.evaluation.evaluator.version"].startswith("default 1 ")
    assert found["judge.consistency"]["evaluation_pipelines.score.highest"] == 25
    assert "gen_ai.evaluation.explanation" not in total  # EVAL_EXPORT_TEXTS is off


def test_only_a_score_that_changes_goes_out_again_and_people_are_pseudonyms(
    judged: Workplace, endpoint: Receiver
) -> None:
    send(judged)
    correct(judged, 20)
    send(judged, NOW + timedelta(hours=1), export_texts=True)

    assert named(endpoint.bodies[1]) == {"session.effective": (20, "fail"), "override": (20, None)}
    assert not named(endpoint.bodies[1], "s2")
    for record in records(endpoint.bodies[1]):
        assert record["gen_ai.evaluation.evaluator.type"] == "human"
        assert record["gen_ai.evaluation.evaluator.id"].startswith("p-")
        assert record["gen_ai.evaluation.explanation"] == "It broke the build."
    assert b"Ada" not in b"".join(endpoint.bodies)

    OverrideStore(judged.ledger).undo("Ada", NOW, 1)
    judged.build()
    send(judged, NOW + timedelta(hours=2))
    assert named(endpoint.bodies[2]) == {
        "session.effective": (59.5, "pass"),
        "override": (None, "withdrawn"),
    }
    ids = [
        record["evaluation_pipelines.evaluation.id"]
        for body in endpoint.bodies
        for record in records(body)
    ]
    assert len(ids) == len(set(ids)) == 13 + 13 + 2 + 2


def test_a_receiver_that_was_down_for_days_gets_the_newest_only(
    judged: Workplace, endpoint: Receiver
) -> None:
    endpoint.answer = lambda _: Reply(503, headers={"Retry-After": "60"})
    assert send(judged) == [Sent("otlp", 0, 0, "the endpoint answered with 503")]
    assert send(judged, NOW + timedelta(seconds=59))[0].sessions == 0
    assert len(endpoint.requests) == 1  # it asked for a minute
    for hours in range(1, 12):
        send(judged, NOW + timedelta(hours=hours))
    (state,) = Deliveries(judged.ledger).states()
    assert (state.failures, state.failing_since) == (12, NOW)
    assert state.next_try_at == NOW + timedelta(hours=12)  # the longest pause
    correct(judged, 30)

    endpoint.answer = lambda _: Reply()
    assert send(judged, NOW + timedelta(hours=12)) == [Sent("otlp", 2, 0, None)]
    assert named(endpoint.bodies[-1]) == {
        **ALL,
        "session.effective": (30, "fail"),
        "override": (30, None),
    }
    (state,) = Deliveries(judged.ledger).states()
    assert (state.failures, state.failing_since, state.last_error) == (0, None, None)


def test_what_was_sent_but_not_marked_comes_again_with_the_same_ids(
    judged: Workplace, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow answer, as a kill, leaves open whether the receiver has it."""
    monkeypatch.setattr(post, "_TIMEOUT_S", 0.2)
    endpoint.answer = lambda _: Reply(delay_s=0.5)
    assert send(judged) == [Sent("otlp", 0, 0, "TimeoutError")]
    endpoint.answer = lambda _: Reply()
    assert send(judged, NOW + timedelta(minutes=1)) == [Sent("otlp", 2, 0, None)]
    assert endpoint.bodies[0] == endpoint.bodies[1]


def test_of_a_long_answer_64_kib_are_read(endpoint: Receiver) -> None:
    endpoint.answer = lambda _: Reply(body=b"x" * 2**20)
    assert len(post.post(endpoint.url, b"", {}, "webhook").body) == 65_536


def refusing(session: bytes, status: int = 400) -> Callable[[bytes], Reply]:
    return lambda body: Reply(status if session in body else 200)


def test_one_refused_session_does_not_hold_the_others_and_is_sent_again_on_request(
    judged: Workplace, endpoint: Receiver
) -> None:
    endpoint.answer = refusing(b"s2#baseline-1")
    assert send(judged) == [Sent("otlp", 1, 1, None)]
    assert named(endpoint.bodies[-2]) == named(endpoint.bodies[-1], "s2") == ALL
    (refused,) = Deliveries(judged.ledger).refusals()
    assert (refused.session_key, refused.reason) == (
        "s2#baseline-1",
        "the endpoint answered with 400",
    )
    assert retry_refused(judged.stores, lambda: NOW) == (0, 1)

    endpoint.answer = lambda _: Reply()
    assert retry_refused(judged.stores, lambda: NOW) == (1, 0)
    assert named(endpoint.bodies[-1], "s2") == ALL
    assert Deliveries(judged.ledger).refusals() == []


@pytest.mark.parametrize("kind", ["application/x-protobuf", "application/json"])
def test_a_partial_success_is_not_repeated_and_a_retry_finds_the_rejected_session(
    judged: Workplace, endpoint: Receiver, kind: str
) -> None:
    answer = ExportLogsServiceResponse()
    answer.partial_success.rejected_log_records = 1
    answer.partial_success.error_message = "no room"
    partial = answer.SerializeToString()
    if kind == "application/json":
        said = {"rejectedLogRecords": "1", "errorMessage": "no room"}
        partial = json.dumps({"partialSuccess": said}).encode()

    def rejects(body: bytes) -> Reply:
        is_rejected = b"s2#baseline-1" in body
        return Reply(200, partial if is_rejected else b"", {"Content-Type": kind})

    endpoint.answer = rejects
    assert send(judged) == [Sent("otlp", 0, 2, None)]
    assert send(judged) == [Sent("otlp", 0, 0, None)]
    assert len(endpoint.requests) == 1
    assert retry_refused(judged.stores, lambda: NOW) == (1, 1)
    (refused,) = Deliveries(judged.ledger).refusals()
    assert refused.session_key == "s2#baseline-1"
    assert refused.reason == "1 of 13 records rejected: no room"


def test_an_accepting_answer_that_cannot_be_read_is_an_acceptance(
    judged: Workplace, endpoint: Receiver
) -> None:
    endpoint.answer = lambda _: Reply(200, b"[" * 60_000, {"Content-Type": "application/json"})
    assert send(judged) == [Sent("otlp", 2, 0, None)]


@pytest.mark.parametrize("is_noted_before", [False, True])
def test_a_session_that_awaits_a_blind_review_goes_out_after_its_answer(
    judged: Workplace, endpoint: Receiver, *, is_noted_before: bool
) -> None:
    if is_noted_before:  # the receiver is new, or was down
        note_changes(judged.stores, NOW)
    draw_for_review(judged)
    assert send(judged) == [Sent("otlp", 1, 0, None)]  # s2 was not sent
    assert not named(endpoint.bodies[0], "s2")

    correct(judged, 40, "s2", "audit")
    send(judged, NOW + timedelta(hours=1))
    corrected = {"session.effective": (40, "fail"), "override": (40, None)}
    assert named(endpoint.bodies[1], "s2") == ALL | corrected


def test_a_session_that_awaits_a_blind_review_is_neither_refused_nor_accepted(
    judged: Workplace, endpoint: Receiver
) -> None:
    note_changes(judged.stores, NOW)
    draw_for_review(judged)
    said = {"partialSuccess": {"rejectedLogRecords": 1, "errorMessage": "no room"}}
    partial = Reply(200, json.dumps(said).encode(), {"Content-Type": "application/json"})
    endpoint.answer = lambda _: partial
    assert send(judged) == [Sent("otlp", 0, 1, None)]  # s1 alone was sent
    (refused,) = Deliveries(judged.ledger).refusals()
    assert refused.session_key == "s1#baseline-1"
    endpoint.answer = lambda _: Reply()
    assert retry_refused(judged.stores, lambda: NOW) == (1, 0)


def test_a_refused_session_that_is_drawn_for_review_goes_out_after_its_answer(
    judged: Workplace, endpoint: Receiver
) -> None:
    endpoint.answer = refusing(b"s2#baseline-1")
    send(judged)
    draw_for_review(judged)
    endpoint.answer = lambda _: Reply()
    requests = len(endpoint.requests)
    assert retry_refused(judged.stores, lambda: NOW) == (0, 0)
    assert len(endpoint.requests) == requests

    correct(judged, 40, "s2", "audit")
    send(judged, NOW + timedelta(hours=1))
    corrected = {"session.effective": (40, "fail"), "override": (40, None)}
    assert named(endpoint.bodies[-1], "s2") == ALL | corrected


def test_a_collector_gets_files_with_one_line_of_otlp(judged: Workplace, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert send(judged, export_otlp_endpoint=None, export_files_dir=folder) == [
        Sent("files", 2, 0, None)
    ]
    (path,) = folder.iterdir()
    (line,) = path.read_bytes().splitlines()
    (scope,) = json.loads(line)["resourceLogs"][0]["scopeLogs"]
    assert len(scope["logRecords"]) == 26
    assert scope["logRecords"][0]["eventName"] == "gen_ai.evaluation.result"


def test_openinference_gets_a_span_for_each_session(judged: Workplace, endpoint: Receiver) -> None:
    send(judged, export_format="openinference")
    ((path, *_),) = endpoint.requests
    request = ExportTraceServiceRequest.FromString(endpoint.bodies[0])
    first, second = request.resource_spans[0].scope_spans[0].spans
    found = {attribute.key: attribute.value for attribute in first.attributes}
    assert path == "/v1/traces"
    assert found["openinference.span.kind"].string_value == "EVALUATOR"
    assert found["session.id"].string_value == "s1"
    names = {found[f"session.evaluations.{n}.evaluation.name"].string_value: n for n in range(13)}
    total = f"session.evaluations.{names['judge.total']}.evaluation"
    assert found[f"{total}.score"].double_value == 64
    assert found[f"{total}.annotator_kind"].string_value == "LLM"
    assert first.trace_id != second.trace_id


def test_the_command_sends_lists_receivers_and_retries_what_was_refused(
    judged: Workplace, endpoint: Receiver, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_DATA_DIR", str(judged.settings.data_dir))
    monkeypatch.setenv("EVAL_EXPORT_OTLP_ENDPOINT", str(judged.settings.export_otlp_endpoint))
    ran = program("evaluations")
    assert (ran.code, ran.out, ran.err.split(".")[0]) == (0, "", "Nothing was sent yet")
    endpoint.answer = refusing(b"s2#baseline-1")
    ran = program("evaluations", "--send")
    assert (ran.code, ran.err) == (4, "otlp: 1 session accepted, 1 refused\n")
    assert ran.table()[0][:2] == ["otlp", "current"]
    assert "s2#baseline-1   otlp " in ran.out

    endpoint.answer = lambda _: Reply()
    ran = program("evaluations", "--refused", "--format", "json")
    assert (ran.code, json.loads(ran.out)["refused"]) == (0, [])
    assert ran.err == "refused before: 1 session accepted, 0 refused\n"
    endpoint.answer = lambda _: Reply(500)
    correct(judged, 20)
    ran = program("evaluations", "--send", "--format", "json")
    said = "otlp: 0 sessions accepted. Not sent: the endpoint answered with 500\n"
    assert (ran.code, ran.err) == (4, said)
    assert (ran.code, ran.items()[0]["last_error"]) == (4, "the endpoint answered with 500")


SIGNED_WITH = "whsec_c2VjcmV0IG9mIHRoZSBDUk0h"  # base64 of "secret of the CRM!"


def webhook(url: str, **more: object) -> dict[str, Webhook]:
    return {"crm": Webhook.model_validate({"url": url, "secret": SIGNED_WITH, **more})}


def test_a_webhook_gets_signed_json_and_the_subscription_ends_with_410(
    judged: Workplace, endpoint: Receiver
) -> None:
    only: dict[str, Any] = {"export_otlp_endpoint": None, "webhooks": webhook(endpoint.url)}
    assert send(judged, **only) == [Sent("webhook crm", 2, 0, None)]

    ((_, kind, body),), (headers,) = endpoint.requests, endpoint.headers
    assert kind == "application/json"
    assert len(body["events"]) == 26
    total = next(event for event in body["events"] if event["name"] == "judge.total")
    assert (total["value"], total["session_key"], total["explanation"]) == (
        64,
        "s1#baseline-1",
        None,
    )
    # As Standard Webhooks verifies it: HMAC of id, time and body, joined by dots.
    signed = f"{headers['Webhook-Id']}.{headers['Webhook-Timestamp']}.".encode()
    code = hmac.digest(b"secret of the CRM!", signed + endpoint.bodies[0], "sha256")
    assert headers["Webhook-Signature"] == f"v1,{base64.b64encode(code).decode()}"
    assert int(headers["Webhook-Timestamp"]) == NOW.timestamp()

    endpoint.answer = lambda _: Reply(410)
    correct(judged, 20)
    assert send(judged, **only)[0].problem == "the webhook answered with 410"
    endpoint.answer = lambda _: Reply()
    assert send(judged, NOW + timedelta(days=2), **only)[0].sessions == 0
    assert len(endpoint.requests) == 2
    # At another address it is another subscription, which begins with everything.
    only["webhooks"] = webhook(endpoint.url + "/new")
    assert send(judged, NOW + timedelta(days=2), **only)[0].sessions == 2


def test_a_webhook_of_one_organization_gets_nothing_of_others(
    judged: Workplace, endpoint: Receiver
) -> None:
    only = webhook(endpoint.url, organization="acme")
    assert send(judged, export_otlp_endpoint=None, webhooks=only)[0].sessions == 0
    assert endpoint.requests == []


@pytest.mark.parametrize("secret", ["short", "whsec_not base64 at all"])
def test_a_weak_or_broken_secret_is_refused_and_not_shown(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"url": "http://127.0.0.1/hook", "secret": secret}
    monkeypatch.setenv("EVAL_WEBHOOKS", json.dumps({"crm": one}))
    with pytest.raises(SettingsError, match="EVAL_WEBHOOKS: must ") as raised:
        load_settings()
    assert secret not in str(raised.value)


def test_failing_ended_and_refusing_receivers_need_attention(
    judged: Workplace, endpoint: Receiver
) -> None:
    def seen(now: datetime) -> list[tuple[str, str]]:
        stores = judged.with_settings(webhooks=webhook(endpoint.url)).stores
        found = gather(stores, now).others
        return [(item.state, item.seen) for item in found if item.kind in ("receiver", "refused")]

    endpoint.answer = lambda body: Reply(410 if body.startswith(b"{") else 503)
    send(judged, webhooks=webhook(endpoint.url))
    ended = ("warning", "The webhook crm has ended its subscription")
    assert seen(NOW + timedelta(minutes=15)) == [ended]
    later = NOW + timedelta(minutes=16)
    assert seen(later) == [("failed", "Evaluations do not reach otlp"), ended]

    endpoint.answer = refusing(b"s2#baseline-1")
    send(judged, later, webhooks=webhook(endpoint.url))
    assert seen(later) == [ended, ("warning", "otlp refused evaluations of 1 session")]


def test_the_sensor_sends(judged: Workplace, endpoint: Receiver) -> None:
    with dg.build_sensor_context(resources={"stores": judged.stores}) as context:
        reason = evaluations_sensor(context)
    assert isinstance(reason, dg.SkipReason)
    assert reason.skip_message == "otlp: 2 sessions accepted"
    assert len(records(endpoint.bodies[0])) == 26


def test_the_process_of_the_service_sends(
    judged: Workplace, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_current, "_SEND_EVERY_S", 0.05)
    stopped = Event()

    def answer(_: bytes) -> Reply:
        stopped.set()
        return Reply()

    endpoint.answer = answer
    keep_current.send_on(judged.stores, stopped)
    assert len(records(endpoint.bodies[0])) == 26
