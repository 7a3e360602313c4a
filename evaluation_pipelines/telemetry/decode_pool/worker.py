"""A process that helps an ingest: it decodes stretches of landing files until nobody asks more.

``python -m evaluation_pipelines.telemetry.decode_pool.worker 7``: orders come on standard input,
replies go to standard output, events to the open file of that number, which has no name. It
writes nothing else and commits nothing: killed at any moment, it leaves no trace.
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
    few_collections,
    open_documents,
    read_byte_range,
)


def main() -> None:
    """Answer orders until standard input ends."""
    # Ctrl-C is for the ingest; this process ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no reply
    events = os.fdopen(int(sys.argv[1]), "wb")
    with suppress(BrokenPipeError), few_collections():  # broken: the ingest was killed
        while order := receive(sys.stdin.buffer, DecodeRequest):
            send(replies, _reply(order, events))


def _reply(order: DecodeRequest, events: BinaryIO) -> DecodedRange:
    settings = TelemetrySettings.model_construct(**order.settings)
    try:
        with Landing(Path(order.root)).open(order.file) as handle:
            documents = open_documents(handle, order.file.path, settings)
            stretch = ByteRange(order.start, order.end)
            batch = read_byte_range(documents, order.file_id, stretch, settings, order.now)
            return DecodedRange.of(batch, events)
    except OSError:  # moved or cut: the ingest, which has it open, will see for itself
        return DecodedRange()


if __name__ == "__main__":
    main()
