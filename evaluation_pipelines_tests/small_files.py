"""Where the time of an ingest of many small files goes.

``python -m evaluation_pipelines_tests.small_files`` cuts generated telemetry after lines into files
of about 20 kB, ingests them from a folder and from an S3 server (``moto``) with a ledger in SQLite,
and prints the wall time of each step.
"""

import argparse
import logging
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import obstore
from obstore.store import from_url

from evaluation_pipelines.storage.object_landing import ObjectLanding
from evaluation_pipelines.telemetry import ingest
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches, SourceFiles
from evaluation_pipelines.telemetry.reading import ByteRangeReader
from evaluation_pipelines_tests.benchmarks.telemetry_file import telemetry_file
from evaluation_pipelines_tests.object_server import BUCKET, running_server, variables
from evaluation_pipelines_tests.workplace import open_workplace

_FILE_BYTES = 20_000
_STEPS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("list and order", ingest, ("find_unread_files",)),
    ("decode", ByteRangeReader, ("batches",)),
    ("write parts", ingest, ("write_events",)),
    ("find dates of sessions", ingest, ("assign_session_dates",)),
    ("commit", IngestBatches, ("commit_batch",)),
    ("record a file", SourceFiles, ("add", "get")),
    ("end of a file", SourceFiles, ("mark_finished",)),
    ("get objects, within others and in threads", ObjectLanding, ("get",)),
)


def main() -> None:
    """Ingest from both places, and print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    count: int = parser.parse_args().files
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line for each request
    for name, place in (("folder", _folder), ("bucket", _bucket)):
        spent = defaultdict[str, float](float)
        with (
            tempfile.TemporaryDirectory(prefix="small_files_") as folder,
            place(Path(folder), count) as settings,
            open_workplace(Path(folder), **settings) as workplace,
            _measured(spent),
        ):
            began = perf_counter()
            report = workplace.ingest()
            seconds = perf_counter() - began
        _tell(f"{name}: {report.files} files, {report.counts.bytes} bytes, {seconds:.1f} s")
        for step, of_step in sorted(spent.items(), key=lambda each: -each[1]):
            _tell(f"  {of_step:6.2f} s  {of_step / seconds:4.0%}  {step}")


def _pieces(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files, in the order of their telemetry."""
    lines, size, number = list[bytes](), 0, 0
    with telemetry_file(max(1, count * _FILE_BYTES * 3 // 2 // 10**6)).open("rb") as handle:
        for line in handle:
            lines.append(line)
            size += len(line)
            if size >= _FILE_BYTES:
                yield f"{number:05}.jsonl", b"".join(lines)
                lines, size, number = [], 0, number + 1
            if number == count:
                return


@contextmanager
def _folder(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    """Write the files into the landing folder; yield the settings."""
    (folder / "landing").mkdir()
    for name, content in _pieces(count):
        (folder / "landing" / name).write_bytes(content)
    yield {}


@contextmanager
def _bucket(_folder: Path, count: int) -> Iterator[dict[str, Any]]:
    """Put the files into a bucket; yield the settings."""
    url = f"s3://{BUCKET}/landing"
    with running_server() as endpoint, patch.dict(os.environ, variables(endpoint)):
        store = from_url(url, endpoint=endpoint, client_options={"allow_http": True})
        for name, content in _pieces(count):
            obstore.put(store, name, content)
        yield {"landing_dir": url}


@contextmanager
def _measured(spent: defaultdict[str, float]) -> Iterator[None]:
    """Add the wall time of each step, of generators that of all their results."""
    with ExitStack() as stack:
        for step, owner, names in _STEPS:
            for name in names:
                timed = _timed(getattr(owner, name), step, spent)
                stack.enter_context(patch.object(owner, name, timed))
        yield


def _timed(
    function: Callable[..., Any], step: str, spent: defaultdict[str, float]
) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        began = perf_counter()
        try:
            found = function(*arguments, **named)
            return _results(found, step, spent) if isinstance(found, Iterator) else found
        finally:
            spent[step] += perf_counter() - began

    return timed


def _results(found: Iterator[Any], step: str, spent: defaultdict[str, float]) -> Iterator[Any]:
    while True:
        began = perf_counter()
        try:
            result = next(found, None)
        finally:
            spent[step] += perf_counter() - began
        if result is None:
            return
        yield result


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
