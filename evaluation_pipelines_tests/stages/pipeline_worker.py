"""A process that ingests or builds again and again, and the handle by which tests kill it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.adapters.landing import Landing
from evaluation_pipelines.adapters.ledger.ledger import open_ledger
from evaluation_pipelines.settings import Settings, load_settings


class Worker:
    """The process, seen from a test; ``settings`` as in ``Settings``, by name."""

    def __init__(self, step: str, settings: Settings) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, step],
            env=environment(settings),
            cwd=settings.data_dir,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
