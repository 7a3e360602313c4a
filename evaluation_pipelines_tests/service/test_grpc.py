"""OTLP over gRPC: the keys, limits and files of OTLP over HTTP, and its answers as statuses."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import grpc  # type: ignore[import-untyped] # grpcio has no types
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.storage import received_files
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.live_service import free_port, server_in_thread
from evaluation_pipelines_tests.service.test_receiver import MIB, encoded, in_protobuf, received
from evaluation_pipelines_tests.service.test_receiver_limits import files_up_to
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import claude, line

LOGS: Any = LogsServiceStub  # the generated code has no types
TRACE: Any = TraceServiceStub
METRICS: Any = MetricsServiceStub


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[tuple[Service, grpc.Channel]]:
    """A service that receives over gRPC, and a channel to it."""
    address = f"127.0.0.1:{free_port()}"
    with open_workplace(folder, **settings) as workplace:
        service = Service(workplace, grpc_address=address)
        with server_in_thread(service.app), grpc.insecure_channel(address) as channel:
            yield service, channel


def logs(body: bytes) -> ExportLogsServiceRequest:
    request: ExportLogsServiceRequest = ExportLogsServiceRequest.FromString(body)
    return request


def refusal(channel: grpc.Channel, body: bytes, **options: Any) -> tuple[grpc.StatusCode, str]:
    """Return code and message, which ends with the seconds after which to try again, if any."""
    with pytest.raises(grpc.RpcError) as refused:
        LOGS(channel).Export(logs(body), timeout=20, **options)
    error: Any = refused.value
    details = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
    # RetryInfo: field 1 is a Duration, whose field 1 are seconds.
    after = (
        f" RetryInfo {details[-1]}"
        if b"google.rpc.RetryInfo\x12\x04\x0a\x02\x08" in details
        else ""
    )
    return error.code(), error.details() + after


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_what_was_taken_is_on_disk_and_ingested(
    tmp_path: Path, compression: grpc.Compression
) -> None:
    with serving(tmp_path) as (service, channel):
        body = in_protobuf()
        answer = LOGS(channel).Export(logs(body), compression=compression)
        assert answer == ExportLogsServiceResponse()
        assert received(service.workplace) == {"_/2026-12-01.pb": len(body).to_bytes(4) + body}
        service.workplace.ingest()
        assert set(service.workplace.landed()["session_id"]) == {"s"}


def test_all_signals_are_taken_as_over_http(tmp_path: Path) -> None:
    with serving(tmp_path, max_attributes=3) as (service, channel):
        spans, metrics = ExportTraceServiceRequest(), ExportMetricsServiceRequest()
        spans.resource_spans.add().scope_spans.add().spans.add().name = "chat"
        metrics.resource_metrics.add().scope_metrics.add()
        TRACE(channel).Export(spans)
        METRICS(channel).Export(metrics)
        many = encoded(line(claude("user_prompt", a=1, b=2), claude("user_prompt", a=1)))
        answer = LOGS(channel).Export(logs(many))

        assert answer.partial_success.rejected_log_records == 1
        both = [spans.SerializeToString(), many]
        content = b"".join(len(request).to_bytes(4) + request for request in both)
        assert received(service.workplace) == {"_/2026-12-01.pb": content}
        text = service.client().get("/metrics").text
        assert 'route="/v1/metrics",status="200"} 1.0' in text


def test_keys_decide_who_may_write_and_whose_it_is(tmp_path: Path) -> None:
    with serving(tmp_path) as (service, channel):
        keys = [service.key(role, "acme") for role in (Role.INGEST, Role.READER)]
        writer, reader = ([("authorization", f"Bearer {key}")] for key in keys)
        LOGS(channel).Export(logs(in_protobuf()), metadata=writer)
        assert set(received(service.workplace)) == {"acme/2026-12-01.pb"}
        code, message = refusal(channel, in_protobuf())
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert message.startswith("The request has no accepted key")
        code, message = refusal(channel, in_protobuf(), metadata=reader)
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert "has the role reader" in message


def test_a_refusal_has_a_time_to_wait_if_the_call_may_be_repeated(tmp_path: Path) -> None:
    # All of it may be 16 MiB. Each request counts 64 KiB more, and a key may hold 16 MiB at once.
    larger, large = (
        encoded(line(claude("user_prompt", n="x" * int(mib * MIB)))) for mib in (17, 15.99)
    )
    with serving(tmp_path, receive_max_pending_bytes=64 * MIB) as (service, channel):
        with files_up_to(10):
            code, message = refusal(channel, in_protobuf())
        assert code is grpc.StatusCode.UNAVAILABLE
        assert message.startswith("The telemetry cannot be stored: File too large.")
        assert message.endswith(" RetryInfo 30")
        code, message = refusal(channel, large)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert message.endswith(" RetryInfo 2")
        for compression in (None, grpc.Compression.Gzip):
            code, message = refusal(channel, larger, compression=compression)
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "RetryInfo" not in message
        assert received(service.workplace) == {}
        LOGS(channel).Export(logs(in_protobuf()))


def test_many_calls_at_once_are_all_taken(tmp_path: Path) -> None:
    with serving(tmp_path) as (service, channel), ThreadPoolExecutor(20) as pool:
        calls = [logs(in_protobuf(f"s{number}")) for number in range(400)]
        assert len(list(pool.map(LOGS(channel).Export, calls))) == 400
        assert service.workplace.ingest().counts.events == 800


def test_calls_under_way_are_finished_when_the_service_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = received_files._sync_content

    def slow_sync(descriptor: int) -> None:
        sleep(0.5)
        sync(descriptor)

    monkeypatch.setattr(received_files, "_sync_content", slow_sync)
    with open_workplace(tmp_path) as workplace:
        address = f"127.0.0.1:{free_port()}"
        with grpc.insecure_channel(address) as channel:
            with server_in_thread(Service(workplace, grpc_address=address).app):
                call = LOGS(channel).Export.future(logs(in_protobuf()))
                while not received(workplace):
                    sleep(0.01)
            assert call.result(timeout=20) == ExportLogsServiceResponse()
        assert workplace.ingest().counts.events == 2
