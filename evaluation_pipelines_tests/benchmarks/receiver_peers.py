"""Endpoints to compare the receiver with: one that reads, parses and syncs, one that only reads.

``python -m evaluation_pipelines_tests.benchmarks.receiver_peers (parse|read) PORT FOLDER``
"""

import os
import sys
from pathlib import Path

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_EMPTY = b"{}"


def reading() -> Starlette:
    """An endpoint that throws away what it is sent."""

    async def receive(request: Request) -> Response:
        await request.body()
        return Response(_EMPTY, media_type="application/json")

    return Starlette(routes=[Route("/v1/logs", receive, methods=["POST"])])


def parsing(folder: Path) -> Starlette:
    """An endpoint that parses each request by orjson, appends it to a file and syncs that."""
    descriptor = os.open(folder / "received.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def receive(request: Request) -> Response:
        body = await request.body()
        orjson.loads(body)
        os.write(descriptor, body + b"\n")
        os.fdatasync(descriptor)
        return Response(_EMPTY, media_type="application/json")

    return Starlette(routes=[Route("/v1/logs", receive, methods=["POST"])])


def main() -> None:
    """Serve until the process is ended."""
    kind, port, folder = sys.argv[1:]
    app = parsing(Path(folder)) if kind == "parse" else reading()
    uvicorn.run(app, port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
