"""Worker process of the local engine.

``python -m evaluation_pipelines.engine.worker 7``: requests arrive on standard input, the length of
each reply goes to standard output, the reply itself to the open file descriptor 7, which has no
name. A pipe would take a large reply in many small pieces, and for each the reading thread waits
for Python's lock. A worker commits nothing, so it can be killed at any time.
"""

import os
import pickle
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from evaluation_pipelines.engine.work import EngineError

LENGTH = struct.Struct(">Q")


def send(pipe: BinaryIO, message: object) -> None:
    """Write a message with its length to a pipe."""
    packed = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    pipe.write(LENGTH.pack(len(packed)))
    pipe.write(packed)
    pipe.flush()


def main() -> None:
    """Answer requests until standard input is closed."""
    # Ctrl-C is for the program that started this one, and this process ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lengths = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for output of libraries
    with suppress(BrokenPipeError):  # the program was killed
        _answer(sys.stdin.buffer, lengths, int(sys.argv[1]))


def _answer(requests: BinaryIO, lengths: BinaryIO, replies: int) -> None:
    function: Callable[[Any, Any], Any] | None = None
    shared: Any = None
    while prefix := requests.read(LENGTH.size):
        packed = requests.read(*LENGTH.unpack(prefix))
        # Only the program that started this process writes to the pipe.
        begins_work, message = pickle.loads(packed)  # noqa: S301
        if begins_work:
            function, shared = message
            continue
        if function is None:
            raise EngineError("A request came before its work; report this.")
        reply = _reply(function, shared, message)
        os.pwrite(replies, reply, 0)
        lengths.write(LENGTH.pack(len(reply)))
        lengths.flush()


def _reply(function: Callable[[Any, Any], Any], shared: object, request: object) -> bytes:
    try:
        answer = True, function(shared, request)
    except Exception as error:  # noqa: BLE001 - raised again where the result is used
        answer = False, error
    return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
