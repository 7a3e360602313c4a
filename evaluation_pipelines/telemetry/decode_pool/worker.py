"""Worker process of an ingest that decodes byte ranges of landing files.

``python -m evaluation_pipelines.telemetry.decode_pool.worker 7``: requests arrive on standard
input, replies go to standard output, events to the open file descriptor 7, which has no name.
A worker writes nothing else and commits nothing, so it can be killed at any time.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.storage.landing import Landing
from evaluation_pipelines.telemetry.decode_pool.messages import (
    DecodedRange,
    DecodeRequest,
    receive,
    send,
)
from evaluation_pipelines.telemetry.reading import (
    ByteRange,
    infrequent_gc,
    open_documents,
    read_byte_range,
)
from evaluation_pipelines.telemetry.received import organization_of


def main() -> None:
    """Answer requests until standard input is closed."""
    # Ctrl-C is for the ingest; this process ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for output of libraries
    events = os.fdopen(int(sys.argv[1]), "wb")
    with suppress(BrokenPipeError), infrequent_gc():  # the ingest was killed
        while request := receive(sys.stdin.buffer, DecodeRequest):
            send(replies, _reply(request, events))


def _reply(request: DecodeRequest, events: BinaryIO) -> DecodedRange:
    settings = TelemetrySettings.model_construct(**request.settings)
    try:
        with Landing(Path(request.root)).open(request.file) as handle:
            documents = open_documents(handle, settings)
            byte_range = ByteRange(request.start, request.end)
            batch = read_byte_range(
                documents,
                request.file_id,
                byte_range,
                settings,
                request.now,
                organization_of(request.file.path),
            )
            return DecodedRange.of(batch, events)
    except OSError:  # moved or truncated: the ingest has it open and will notice
        return DecodedRange()


if __name__ == "__main__":
    main()
