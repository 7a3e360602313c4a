"""Sessions that were judged by a scripted endpoint and by a profile, and what receivers got."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from evaluation_pipelines.build.build import publish_scores
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import says, score_reply
from evaluation_pipelines_tests.judged import JUNE_1, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.receiver import Receiver, open_receiver
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace


@pytest.fixture
def endpoint() -> Iterator[Receiver]:
    """An OTLP endpoint that accepts everything unless it is told otherwise."""
    with open_receiver() as opened:
        yield opened


@pytest.fixture(scope="session")
def judged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Session s1 with 64 points of the judge and s2 with the same, an hour later."""
    folder = tmp_path_factory.mktemp("judged")
    with open_judge_endpoint() as judge:
        judge.always(says(score_reply(64)), "score")
        with open_judged(folder, judge.base_url) as opened:
            fill(opened.workplace, session_with_texts("s1"), session_with_texts("s2", 3600))
            opened.run()
            stores = opened.workplace.stores
            publish_scores(stores, stores.lake.partitions(AGENT_SESSIONS), clock=lambda: NOW)
            opened.workplace.build()
    return folder


@pytest.fixture
def judged(judged_folder: Path, tmp_path: Path, endpoint: Receiver) -> Iterator[Workplace]:
    """The same, with that endpoint as the receiver."""
    copytree(judged_folder, tmp_path / "data")
    address = endpoint.url.removesuffix("/hook")
    with open_workplace(tmp_path / "data", export_otlp_endpoint=address) as opened:
        yield opened


def draw_for_review(workplace: Workplace) -> None:
    """Draw s2 for a blind review."""
    content = workplace.sessions().filter(session_key="s2#baseline-1")["content_hash"].item()
    sample = AuditSample(JUNE_1, "default", "s2#baseline-1", "default", content, NOW)
    OverrideStore(workplace.ledger).add_samples([sample])


def records(body: bytes) -> list[dict[str, Any]]:
    """Return the attributes of the log records of an OTLP request, with their ids and times."""
    request = ExportLogsServiceRequest.FromString(body)
    (resource,) = request.resource_logs
    (scope,) = resource.scope_logs
    return [
        {
            "event_name": record.event_name,
            "trace_id": record.trace_id.hex(),
            "span_id": record.span_id.hex(),
            "time": record.time_unix_nano,
            **{
                attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value") or "")
                for attribute in record.attributes
            },
        }
        for record in scope.log_records
    ]


def named(body: bytes, session: str = "s1") -> dict[str, tuple[Any, Any]]:
    """Return value and label of the evaluations of a session in an OTLP request, by name."""
    return {
        record["gen_ai.evaluation.name"]: (
            record.get("gen_ai.evaluation.score.value"),
            record.get("gen_ai.evaluation.score.label"),
        )
        for record in records(body)
        if record["session.id"] == session
    }
