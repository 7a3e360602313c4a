"""OTLP over HTTP: a request is checked, written to the landing folder, synced, then answered.

Requests that arrive while others are synced share the next sync.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.service.caller import caller_with, peer_of
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.limits import SECONDS_TO_STOP, holder_network
from evaluation_pipelines.service.receiver.requests import (
    Checked,
    InFlight,
    Signal,
    check_json,
    check_protobuf,
    check_transcript,
    read_body,
)
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.received_files import (
    ReceivedFiles,
    ReceivedRecord,
    received_folder,
)

_LOOK_SECONDS = 1.0


class Spool:
    """Writer of received records; all methods are for one event loop.

    A thread of its own writes, so that the loop can answer others meanwhile. Files that get nothing
    more are closed within about a second, whether records arrive or not.
    """

    def __init__(self, root: Path, max_file_bytes: int, clock: Callable[[], datetime]) -> None:
        self._files = ReceivedFiles(root, max_file_bytes, clock)
        self._waiting: list[tuple[ReceivedRecord, asyncio.Future[None]]] = []
        self._thread = ThreadPoolExecutor(1, "received-files")
        self._writer: asyncio.Task[None] | None = None
        self._next_look: asyncio.TimerHandle | None = None

    async def append(self, record: ReceivedRecord) -> None:
        """Return when a record is on disk.

        Raises:
            OSError: it is not, for example because the disk is full.
        """
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((record, done))
        if self._writer is None:  # it begins after the requests that have arrived, too
            self._writer = asyncio.create_task(self._write_waiting())
        # A client that hangs up cancels its request, not the writing of all.
        await done

    def close(self) -> None:
        """Close the files; nothing may be waiting."""
        if self._next_look is not None:
            self._next_look.cancel()
        self._thread.shutdown()
        self._files.close()

    async def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            results: Sequence[Exception | None]
            try:
                records = [record for record, _ in batch]
                results = await loop.run_in_executor(self._thread, self._files.append, records)
            except Exception as error:  # noqa: BLE001 - raised in each request that waits for it
                results = [error] * len(batch)
            for (_, done), failure in zip(batch, results, strict=True):
                if done.cancelled():
                    continue
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
        self._writer = None
        if self._next_look is None:
            self._next_look = loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Close files that get nothing more, unless they are being written: then a bit later."""
        self._next_look = None
        if self._writer is not None or self._files.close_finished():
            loop = asyncio.get_running_loop()
            self._next_look = loop.call_later(_LOOK_SECONDS, self._look)


_LOG = logging.getLogger("evaluation_pipelines.service.receiver")

JSON, PROTOBUF = "application/json", "application/x-protobuf"
_JSON_LINES = "application/x-ndjson"

_STATUS_CODES = {
    400: 3,  # INVALID_ARGUMENT
    401: 16,  # UNAUTHENTICATED
    403: 7,  # PERMISSION_DENIED
    413: 8,  # RESOURCE_EXHAUSTED
    429: 8,
    501: 12,  # UNIMPLEMENTED
    503: 14,  # UNAVAILABLE
}
"""HTTP status -> code of google.rpc.Status; 2, UNKNOWN, for others."""

_ACCEPTED = {JSON: Response(b"{}", media_type=JSON), PROTOBUF: Response(b"", media_type=PROTOBUF)}


def media_type_of(headers: Headers) -> str:
    """Return the media type of a request, without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def accepted(checked: Checked, media_type: str, max_attributes: int) -> Response:
    """Return 200; a partial success if some records will go to quarantine."""
    if not checked.rejected:
        return _ACCEPTED[media_type]
    message = (
        f"{checked.rejected} of {checked.records} records are broken or have more than "
        f"{max_attributes} attributes: see evaluation-pipelines quarantine list"
    )
    if media_type == JSON:
        partial = {"rejectedLogRecords": str(checked.rejected), "errorMessage": message}
        return _response(200, {"partialSuccess": partial})
    answer = ExportLogsServiceResponse()
    answer.partial_success.rejected_log_records = checked.rejected
    answer.partial_success.error_message = message
    return Response(answer.SerializeToString(), media_type=PROTOBUF)


def refused(error: ServiceError, media_type: str) -> Response:
    """Return an error as google.rpc.Status."""
    text = f"{error.detail} {error.help_text or ''}".strip()
    code = _STATUS_CODES.get(error.status_code, 2)
    if media_type == PROTOBUF:
        content = _status_message(code, text)
        response = Response(content, error.status_code, media_type=PROTOBUF)
    else:
        response = _response(error.status_code, {"code": code, "message": text})
    response.headers.update(error.headers or {})
    return response


def not_received(where: str) -> ServiceError:
    """Return the answer of a service whose telemetry is in a bucket; clients do not try again."""
    return ServiceError(
        HTTPStatus.NOT_IMPLEMENTED,
        "not_received",
        f"This service receives no telemetry: it is read from {where}.",
        "Send it to a collector that writes there, or let EVAL_LANDING_DIR be a folder.",
    )


def unavailable(message: str, seconds: int) -> ServiceError:
    """Return the answer while nothing can be stored; clients try again after some seconds."""
    return ServiceError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "cannot_store",
        message,
        "Send the request again later.",
        {"Retry-After": str(seconds)},
    )


def _response(status: int, content: object) -> Response:
    return Response(msgspec.json.encode(content), status, media_type=JSON)


def _status_message(code: int, text: str) -> bytes:
    """Return a google.rpc.Status: field 1 the code, field 2 the message, at most 127 * 128 bytes.

    No package that is needed otherwise has the message.
    """
    encoded = text.encode()[:1000]
    length = len(encoded)
    size = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
    return bytes([0x08, code, 0x12]) + size + encoded


_FORMATS = {JSON: (check_json, "jsonl"), PROTOBUF: (check_protobuf, "pb")}
_IN_THREAD_BYTES = 128 * 1024
"""Size from which a request is checked in a thread, so that others are not kept waiting."""

BODY_SECONDS = 30.0
"""Seconds within which a request must have arrived."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Size from which a file of received telemetry is followed by a new one."""

_may_ingest = caller_with(Role.INGEST)


class Receiver:
    """The OTLP endpoints of an installation."""

    def __init__(self, installation: Installation) -> None:
        settings = installation.settings
        self._installation, self._settings = installation, settings
        self._metrics = installation.metrics
        self._in_flight = InFlight(settings.receive_max_pending_bytes)
        self._max_bytes = min(settings.receive_max_body_bytes, settings.max_line_bytes)
        landing = installation.stores.landing
        self._spool = (
            None
            if landing.folder is None
            else Spool(landing.folder, MAX_FILE_BYTES, installation.clock)
        )

    def routes(self) -> list[Route]:
        """Return the routes of all signals; their endpoints are ASGI applications."""
        return [
            Route(f"/v1/{signal}", _Endpoint(self, signal), methods=["POST"]) for signal in Signal
        ]

    @asynccontextmanager
    async def over_grpc(self, app: ASGIApp, address: str | None) -> AsyncIterator[None]:
        """Receive over gRPC, too, during the block, and finish calls under way at its end."""
        if address is None:
            yield
            return
        # Slow to import, and only for those who ask for it.
        from evaluation_pipelines.service.receiver.grpc_server import create_grpc_server

        server = create_grpc_server(app, address, self._max_bytes)
        await server.start()
        try:
            yield
        finally:
            await server.stop(SECONDS_TO_STOP)

    def close(self) -> None:
        """Close the files that were written."""
        if self._spool is not None:
            self._spool.close()

    async def answer(self, request: Request, signal: Signal) -> Response:
        """Return the answer to a request; what it holds is on disk if that is 200."""
        media_type = media_type_of(request.headers)
        if signal is Signal.TRANSCRIPTS and media_type == _JSON_LINES:
            media_type = JSON
        try:
            checked = await self._receive(request, signal, media_type)
        except LedgerError:
            error = unavailable("The ledger cannot be used at the moment.", 5)
        except ServiceError as refusal:
            error = refusal
        else:
            return accepted(checked, media_type, self._settings.max_attributes)
        self._metrics.refused_requests(signal, error.code).inc()
        return refused(error, media_type)

    async def _receive(self, request: Request, signal: Signal, media_type: str) -> Checked:
        """Return a request that is on disk, or need not be."""
        caller = await self._caller(request)
        if self._spool is None:
            raise not_received(self._installation.stores.landing.where())
        if media_type not in _FORMATS:
            raise ServiceError(
                415, "unknown_format", f"The content type must be {JSON} or {PROTOBUF}."
            )
        check, ending = _FORMATS[media_type]
        with self._in_flight.claim(holder_of(request, caller)) as claim:
            body = await read_body(
                request,
                claim,
                max_bytes=self._max_bytes,
                max_ratio=self._settings.max_decompression_ratio,
                seconds=BODY_SECONDS,
            )
            arguments = (body, signal, self._settings.max_attributes)
            if signal is Signal.TRANSCRIPTS:
                limit, texts = self._settings.max_line_bytes, self._settings.transcript_texts
                read = partial(check_transcript, body, limit, keeps_texts=texts)
                checked = await asyncio.to_thread(read)
            elif len(body) < _IN_THREAD_BYTES:
                checked = check(*arguments)
            else:
                checked = await asyncio.to_thread(check, *arguments)
            if checked.content and signal is not Signal.METRICS:
                await self._store(self._spool, checked, ending, caller)
                self._metrics.received_records(ending).inc(checked.records)
                self._metrics.received_bytes(signal).inc(len(checked.content))
        self._metrics.received_requests(signal, ending).inc()
        return checked

    async def _caller(self, request: Request) -> Caller:
        if self._installation.keys.is_current:
            return _may_ingest(request)
        return await run_in_threadpool(_may_ingest, request)

    async def _store(self, spool: Spool, checked: Checked, ending: str, caller: Caller) -> None:
        folder = received_folder(caller.organization)
        try:
            await spool.append(ReceivedRecord(folder, ending, checked.content))
        except OSError as error:
            _LOG.error("telemetry cannot be stored: %s", error)
            message = f"The telemetry cannot be stored: {error.strerror or error}."
            raise unavailable(message, 30) from None


class _Endpoint:
    """The ASGI application of one signal."""

    def __init__(self, receiver: Receiver, signal: Signal) -> None:
        self._receiver, self._signal = receiver, signal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["routine"] = scope["path"]
        answer = await self._receiver.answer(Request(scope, receive, send), self._signal)
        await answer(scope, receive, send)


def holder_of(request: Request, caller: Caller) -> str:
    """Return whose share of the memory a request takes: that of its key, else of its address."""
    if caller.key_id:
        return f"key {caller.key_id}"
    return holder_network(peer_of(request))
