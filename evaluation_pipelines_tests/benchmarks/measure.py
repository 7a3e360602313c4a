"""Time, processor time and memory of work done in a fresh process, with all its descendants."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

_SAMPLE_SECONDS = 0.2
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one process took.

    Attributes:
        seconds: Wall time of the work: without start of the interpreter and imports where a
            function was measured, all of it where a command was.
        cpu_seconds: Processor time of the whole process with its descendants.
        peak_mb: Largest resident memory of the process with its descendants (10^6 bytes), sampled;
            what several share counts once where the system tells (Linux), else for each.
        answer: What the function returned, or the text the command printed.
    """

    seconds: float
    cpu_seconds: float
    peak_mb: float
    answer: Any

    def figures(self) -> dict[str, float]:
        """The numbers, rounded, without the answer."""
        return {name: round(value, 4) for name, value in asdict(self).items() if name != "answer"}


def tell(text: str) -> None:
    """Print a line at once: a run takes minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class BenchmarkError(Exception):
    """A process failed, or two that should agree gave different answers."""


def run_function(target: str, **arguments: object) -> Measurement:
    """Run ``module:function`` of this package in a fresh process.

    Args:
        target: Its module is imported before the clock starts.
        arguments: What JSON can hold.

    Raises:
        BenchmarkError: it failed; what it said stands above.
    """
    child = (sys.executable, "-m", f"{__package__}.child")
    whole = run_command(*child, target, json.dumps(arguments))
    told = json.loads(whole.answer.splitlines()[-1])
    return Measurement(told["seconds"], whole.cpu_seconds, whole.peak_mb, told["answer"])


def run_command(*command: str, environment: Sequence[tuple[str, str]] = ()) -> Measurement:
    """Run a program and measure all of it.

    Raises:
        BenchmarkError: it failed; what it said stands above.
    """
    began = perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **dict(environment)}
    )
    peak = _Peak(process.pid)
    peak.start()
    assert process.stdout is not None
    with process.stdout:
        answer = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    peak.stop()
    if process.returncode != 0:
        raise BenchmarkError(f"exit code {process.returncode} of {' '.join(command)}")
    # The kernel knows the peak of the largest process exactly, samples may miss it.
    peak_bytes = max(peak.bytes, usage.ru_maxrss * _MAXRSS_UNIT)
    return Measurement(seconds, usage.ru_utime + usage.ru_stime, peak_bytes / 1e6, answer)


class _Peak(threading.Thread):
    """Samples the resident memory of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self._pid = pid
        self._stopped = threading.Event()

    def run(self) -> None:
        import psutil

        while not self._stopped.wait(_SAMPLE_SECONDS):
            with suppress(psutil.NoSuchProcess):  # one that ended just now: the next sample counts
                root = psutil.Process(self._pid)
                tree = (root, *root.children(recursive=True))
                self.bytes = max(self.bytes, sum(map(_held_bytes, tree)))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _held_bytes(process: Any) -> int:
    memory = process.memory_full_info()
    return int(getattr(memory, "pss", memory.rss))
