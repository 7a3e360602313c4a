"""Rounds of killed Ray nodes and cut connections to PostgreSQL in the middle of ingest and build.

``python -m evaluation_pipelines_tests.scale_rounds --rounds 20`` needs the extras ``ray`` and
``postgresql``, Debian's PostgreSQL and 2 GB of memory. It starts and ends everything itself: a
cluster, a PostgreSQL server and an S3 server (``moto``). Exit code 0: every round has the rows of
one machine, and books that balance.
"""

import argparse
import ctypes
import logging
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

import psutil

from evaluation_pipelines_tests import object_server, postgresql
from evaluation_pipelines_tests.build.test_postgresql import fresh_ledger
from evaluation_pipelines_tests.engine.ray_nodes import cluster_with_bucket
from evaluation_pipelines_tests.killed_rounds import disturbed_round, on_one_machine

_START_S, _END_S = 180, 60
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Run the rounds, and print a line for each."""
    arguments = _arguments()
    with _limited(_START_S + arguments.rounds * arguments.seconds):
        is_good = _run(arguments.rounds, arguments.seed)
    sys.exit(0 if is_good else 1)


def _run(rounds: int, seed: int) -> bool:
    programs = postgresql.installed()
    if programs is None:
        sys.exit("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line for each request
    warnings.simplefilter("ignore")  # of connections that ended without being closed
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scale_rounds_")))
        expected = on_one_machine(folder / "one machine")
        server = stack.enter_context(postgresql.running_server(programs))
        endpoint = stack.enter_context(object_server.running_server())
        cluster = stack.enter_context(cluster_with_bucket(endpoint))
        done = []
        for number in range(1, rounds + 1):
            with fresh_ledger(server, number) as url:
                place = folder / str(number)
                done.append(disturbed_round(cluster, url, place, seed + number, expected))
            _tell(f"round {number}: {done[-1]}")
    good = sum(each.is_good for each in done)
    killed, cuts = sum(each.killed for each in done), sum(each.cuts for each in done)
    _tell(f"{good} of {rounds} rounds good: {killed} nodes killed, connections cut {cuts} times")
    return good == rounds


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """End the program with an error after some seconds, and every process that it has started."""

    def is_late(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGALRM, must_end)
        signal.alarm(_END_S)
        raise SystemExit(f"not done after {seconds} s")

    def must_end(_number: int, _frame: FrameType | None) -> None:
        _kill_children()
        os._exit(2)

    _adopt_orphans()
    signal.signal(signal.SIGALRM, is_late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        _kill_children()


def _adopt_orphans() -> None:
    """Become the parent of what a killed process has started, so that it is found as well."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _kill_children() -> None:
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            each.kill()


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the times of kills and cuts")
    parser.add_argument("--seconds", type=int, default=180, help="limit of a round, on average")
    return parser.parse_args()


if __name__ == "__main__":
    main()
