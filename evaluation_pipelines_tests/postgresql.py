"""A PostgreSQL server of the tests' own, started where the programs of one are installed."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DEBIAN = "usr/lib/postgresql/*/bin/pg_ctl"
_UNPRIVILEGED = ("postgres", "daemon")
"""As whom to run it for root, whom PostgreSQL does not serve."""


def installed() -> Path | None:
    """Folder of the server's programs; None where there are none."""
    if found := shutil.which("pg_ctl"):
        return Path(found).resolve().parent
    places = sorted(Path("/").glob(_DEBIAN))
    return places[-1].parent if places else None


@contextmanager
def running_server(programs: Path) -> Iterator[str]:
    """URL of a fresh server, which is reached by a socket in its own folder and by nothing else."""
    with tempfile.TemporaryDirectory(prefix="postgresql_", ignore_cleanup_errors=True) as name:
        folder, user = Path(name), _user()
        if user is not None:
            shutil.chown(folder, user)
        data = folder / "data"
        _run(user, programs / "initdb", "-D", data, "-A", "trust", "-U", "tests", "--no-sync")
        # Nothing here need survive a power cut.
        options = f"-k {folder} -h '' -F -c full_page_writes=off -c synchronous_commit=off"
        log = folder / "log"
        _run(user, programs / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield f"postgresql+psycopg://tests@/postgres?host={folder}"
        finally:
            _run(user, programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _user() -> str | None:
    """Whom the server runs as; None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return next(each for each in _UNPRIVILEGED if each in known)


def _run(user: str | None, *command: object) -> None:
    subprocess.run(
        [str(each) for each in command],
        check=True,
        user=user,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # a pipe would stay open as long as the server runs
        timeout=120,
    )
