"""OTLP over gRPC: each call is passed on as the request of OTLP over HTTP that it is.

So keys, limits, log, metrics and files are the same, and a call is answered when it is on disk.
"""

from collections.abc import AsyncIterator, Mapping
from urllib.parse import unquote

import grpc  # type: ignore[import-untyped] # grpcio has no types
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from starlette.types import ASGIApp, Message, Receive, Scope

from evaluation_pipelines.service.receiver.receiver import PROTOBUF
from evaluation_pipelines.service.receiver.requests import Signal

_SERVICES = {
    f"opentelemetry.proto.collector.{package}.v1.{service}Service": signal
    for package, service, signal in (
        ("logs", "Logs", Signal.LOGS),
        ("trace", "Trace", Signal.TRACES),
        ("metrics", "Metrics", Signal.METRICS),
    )
}
_CALLS_PER_CONNECTION = 100
"""The library refuses some calls long before: a collector has ten under way."""

_IDLE_MS = 75_000

_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def create_grpc_server(app: ASGIApp, address: str, max_bytes: int) -> grpc.aio.Server:
    """Return a server that passes calls on to an application, to be started in its loop.

    Args:
        app: Has the routes of the receiver.
        address: Host and port.
        max_bytes: Maximum size of a request, also decompressed.

    Raises:
        RuntimeError: the address is in use.
    """
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", max_bytes),
            ("grpc.max_concurrent_streams", _CALLS_PER_CONNECTION),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.so_reuseport", 0),  # a second service would share the port unnoticed
        )
    )
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(service, {"Export": _handler(app, signal)})
            for service, signal in _SERVICES.items()
        ]
    )
    server.add_insecure_port(address)
    return server


def _handler(app: ASGIApp, signal: Signal) -> grpc.RpcMethodHandler:
    async def export(
        requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> bytes | None:
        answer = _Answer()
        # The message is read when the application wants it: after the key.
        await app(_scope(signal, context), _receive(requests), answer.send)
        if answer.status == 200:
            return answer.body
        code, message, details = answer.refusal()
        if details:
            context.set_trailing_metadata([("grpc-status-details-bin", details)])
        await context.abort(code, message)
        return None

    # On the wire a call with one message is the same as a stream of them.
    return grpc.stream_unary_rpc_method_handler(export)


def _scope(signal: Signal, context: grpc.aio.ServicerContext) -> Scope:
    headers = [
        (name.encode(), value if isinstance(value, bytes) else value.encode())
        for name, value in context.invocation_metadata()
        if name not in ("host", "content-type", "content-encoding", "content-length")
    ]
    path, peer = f"/v1/{signal}", unquote(context.peer()).partition(":")[2]
    return {
        "type": "http",
        "http_version": "2",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        # No page of a browser can make such a call: any name will do.
        "headers": [*headers, (b"host", b"localhost"), (b"content-type", PROTOBUF.encode())],
        "client": (peer.rpartition(":")[0].strip("[]"), 0),
        "server": None,
    }


def _receive(requests: AsyncIterator[bytes]) -> Receive:
    async def receive() -> Message:
        async for body in requests:
            return {"type": "http.request", "body": body, "more_body": False}
        return {"type": "http.disconnect"}

    return receive


class _Answer:
    """An answer over HTTP, as one of gRPC."""

    def __init__(self) -> None:
        self.status, self.body = 0, b""
        self._headers: Mapping[bytes, bytes] = {}

    async def send(self, message: Message) -> None:
        """Keep a part of it."""
        if message["type"] == "http.response.start":
            self.status, self._headers = message["status"], dict(message["headers"])
        else:
            self.body += message.get("body", b"")

    def refusal(self) -> tuple[grpc.StatusCode, str, bytes]:
        """Return code and message, and a google.rpc.Status with the time to wait, if any."""
        if self._headers.get(b"content-type") != PROTOBUF.encode():
            return grpc.StatusCode.UNKNOWN, "The service failed: its log has the reason.", b""
        code, text = self.body[1], self.body[5 if self.body[3] & 128 else 4 :]
        after = self._headers.get(b"retry-after")
        if after is None:
            return _CODES[code], text.decode(errors="ignore"), b""
        wait = Duration(seconds=int(after)).SerializeToString()
        info = AnyMessage(type_url=_RETRY_INFO, value=bytes([0x0A, len(wait)]) + wait)
        detail = info.SerializeToString()
        details = self.body + bytes([0x1A, len(detail)]) + detail
        return _CODES[code], text.decode(errors="ignore"), details
