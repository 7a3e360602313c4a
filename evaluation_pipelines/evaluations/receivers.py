"""Receivers of evaluations: an OTLP endpoint, a folder of a collector, and webhooks."""

import base64
import hmac
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

import msgspec
import polars as pl
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from evaluation_pipelines.evaluations.deliveries import FILES, OTLP, WEBHOOK
from evaluation_pipelines.evaluations.domain.otlp import logs_line, logs_request, spans_request
from evaluation_pipelines.evaluations.post import Answer, NotDeliveredError, post
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.times import to_us

_PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True, slots=True)
class Rejected:
    """Number of rejected records of an accepted request, and the reason."""

    records: int
    reason: str


class Receiver(Protocol):
    """Takes evaluations."""

    @property
    def name(self) -> str:
        """Its name in the ledger."""

    @property
    def address(self) -> str:
        """Its address, perhaps a secret."""

    @property
    def organization(self) -> str | None:
        """The only organization that it gets, ``None`` for all."""

    def send(self, events: pl.DataFrame, now: datetime) -> Rejected | None:
        """Hand over EVALUATION_EVENTS. Raises NotDeliveredError."""


def receivers(settings: Settings) -> Iterator[Receiver]:
    """Yield the receivers of the settings."""
    if settings.export_otlp_endpoint is not None:
        yield _Otlp(settings)
    if settings.export_files_dir is not None:
        yield _Files(settings.export_files_dir)
    for name, webhook in settings.webhooks.items():
        url, secret = webhook.url.get_secret_value(), webhook.secret.get_secret_value()
        yield _Webhook(f"{WEBHOOK} {name}", url, secret, webhook.organization)


class _Otlp:
    name, organization = OTLP, None

    def __init__(self, settings: Settings) -> None:
        self._is_logs = settings.export_format == "events"
        path = "/v1/logs" if self._is_logs else "/v1/traces"
        self.address = f"{settings.export_otlp_endpoint}".removesuffix(path) + path
        given = settings.export_otlp_headers
        pairs = [] if given is None else given.get_secret_value().split(",")
        sent = (pair.partition("=") for pair in pairs if pair.strip())
        self._headers = {name.strip(): unquote(value.strip()) for name, _, value in sent}

    def send(self, events: pl.DataFrame, now: datetime) -> Rejected | None:
        """Post them as one request."""
        request = logs_request(events) if self._is_logs else spans_request(events)
        headers = {"Content-Type": _PROTOBUF, **self._headers}
        answer = post(self.address, request.SerializeToString(), headers, "endpoint")
        return self._rejected(answer)

    def _rejected(self, answer: Answer) -> Rejected | None:
        names = ("rejectedLogRecords", "rejectedSpans")
        try:
            if answer.media_type == "application/json":
                found = json.loads(answer.body or b"{}").get("partialSuccess", {})
                number = int(found.get(names[not self._is_logs], 0))
                return Rejected(number, f"{found.get('errorMessage', '')}") if number else None
            kind = ExportLogsServiceResponse if self._is_logs else ExportTraceServiceResponse
            partial = kind.FromString(answer.body).partial_success
        except (DecodeError, ValueError, AttributeError, TypeError, RecursionError):
            return None  # accepted, with an answer of another format
        number = partial.rejected_log_records if self._is_logs else partial.rejected_spans
        return Rejected(number, partial.error_message) if number else None


@dataclass(frozen=True, slots=True)
class _Files:
    """One file a batch, named by its first position: written again it has the same name."""

    folder: Path
    name: str = FILES
    organization: None = None

    @property
    def address(self) -> str:
        return f"{self.folder}"

    def send(self, events: pl.DataFrame, now: datetime) -> None:
        """Write them as a line of OTLP in JSON. A collector never sees half of it."""
        path = self.folder / f"evaluations-{events['position'][0]}.jsonl"
        staged = path.with_suffix(".part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with staged.open("wb") as file:
                file.write(logs_line(events))
                file.flush()
                os.fsync(file.fileno())
            staged.replace(path)
        except OSError as error:
            raise NotDeliveredError(f"{error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class _Webhook:
    """A webhook with the headers and the signature of Standard Webhooks."""

    name: str
    address: str
    secret: str
    organization: str | None

    def send(self, events: pl.DataFrame, now: datetime) -> None:
        """Post them as JSON, signed."""
        body = msgspec.json.encode({"events": events.to_dicts()})
        message_id, at = f"evaluations-{events['position'][-1]}", f"{to_us(now) // 1_000_000}"
        headers = {
            "Content-Type": "application/json",
            "Webhook-Id": message_id,
            "Webhook-Timestamp": at,
            "Webhook-Signature": signature(self.secret, message_id, at, body),
        }
        post(self.address, body, headers, "webhook")


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a webhook: version 1 of Standard Webhooks, HMAC with SHA-256.

    A secret with the prefix ``whsec_`` is the base64 of the key.
    """
    encoded = secret.removeprefix("whsec_")
    key = secret.encode() if encoded == secret else base64.b64decode(encoded)
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(key, signed, sha256)).decode()}"
