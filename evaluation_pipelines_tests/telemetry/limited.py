"""The command line program with limited memory or without write permission."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from evaluation_pipelines_tests.telemetry.pipeline_worker import environment

# The first ingest, of a small file, allocates the memory that is needed only once (threads).
_WITH_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.storage.stores import open_stores

with open_stores(load_settings()) as stores:
    Ingest(stores).run()
    (stores.landing.root / ".large").rename(stores.landing.root / "large.jsonl")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    report = Ingest(stores).run()
    assert not report.skipped, report.skipped
"""

# Root may write anywhere, so this process drops that capability.
_WITHOUT_RIGHTS = """
import ctypes, os, sys
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
"""

_PROGRAM = "from evaluation_pipelines.cli.program import main; main()"


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code and output of a process."""

    code: int
    out: str
    err: str


def ingest_with_little_memory(folder: Path, extra_bytes: int, **settings: object) -> Ended:
    """Ingest the landing folder, then its file ``.large`` with ``extra_bytes`` more memory."""
    return _run([_WITH_LITTLE_MEMORY, str(extra_bytes)], folder, **settings)


def program_without_rights(folder: Path, *arguments: str) -> Ended:
    """Run the command line program as a user with limited write permissions."""
    return _run([_WITHOUT_RIGHTS, _PROGRAM, *arguments], folder)


def can_drop_root_permissions(folder: Path) -> bool:
    """Return True if root can drop its write permission on this machine."""
    locked = folder / "locked"
    locked.mkdir(mode=0o500)
    attempt = f"open({str(locked / 'file')!r}, 'w')"
    return "PermissionError" in _run([_WITHOUT_RIGHTS, attempt], folder).err


def _run(arguments: list[str], folder: Path, **settings: object) -> Ended:
    ran = subprocess.run(
        [sys.executable, "-c", *arguments],
        env=environment(folder, **settings)
        # Each thread reserves 64 MiB of addresses, which count against the limit, in an arena.
        | {"PYTHONPATH": os.pathsep.join(sys.path), "MALLOC_ARENA_MAX": "2"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(ran.returncode, ran.stdout, ran.stderr)
