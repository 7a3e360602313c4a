"""A process that helps an ingest: it decodes stretches of landing files until nobody asks more.

``python -m evaluation_pipelines.stages.crew_member 7``: orders come on standard input, replies go
to standard output, events to the open file of that number, which has no name. It writes nothing
else and commits nothing: killed at any moment, it leaves no trace.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from evaluation_pipelines.adapters.landing import Landing
from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.stages.crew_messages import Order, Reply, receive, send
from evaluation_pipelines.stages.reading import (
    Stretch,
    few_collections,
    open_documents,
    read_stretch,
)


def main() -> None:
    """Answer orders until standard input ends."""
    # Ctrl-C is for the ingest; this process ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no reply
    events = os.fdopen(int(sys.argv[1]), "wb")
    with suppress(BrokenPipeError), few_collections():  # broken: the ingest was killed
        while order := receive(sys.stdin.buffer, Order):
            send(replies, _reply(order, events))


def _reply(order: Order, events: BinaryIO) -> Reply:
    settings = TelemetrySettings.model_construct(**order.settings)
    try:
        with Landing(Path(order.root)).open(order.file) as handle:
            documents = open_documents(handle, order.file.path, settings)
            stretch = Stretch(order.start, order.end)
            batch = read_stretch(documents, order.file_id, stretch, settings, order.now)
            return Reply.of(batch, events)
    except OSError:  # moved or cut: the ingest, which has it open, will see for itself
        return Reply()


if __name__ == "__main__":
    main()
