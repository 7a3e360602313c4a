"""Answers to OTLP requests, in the format of the request."""

from http import HTTPStatus

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from starlette.datastructures import Headers
from starlette.responses import Response

from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.receiver.requests import Checked

JSON, PROTOBUF = "application/json", "application/x-protobuf"

_STATUS_CODES = {
    400: 3,  # INVALID_ARGUMENT
    401: 16,  # UNAUTHENTICATED
    403: 7,  # PERMISSION_DENIED
    413: 11,  # OUT_OF_RANGE
    429: 8,  # RESOURCE_EXHAUSTED
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
