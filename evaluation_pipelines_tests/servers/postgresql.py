"""A PostgreSQL server of the tests' own, started where the programs of one are installed."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
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


_UNTIL_STDIN_CLOSES = '"$@" & read -r _; kill -QUIT $!; wait $!'
"""Shell program that ends a server as soon as who started it is gone, even if it was killed."""


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
        options = f"-D {data} -k {folder} -F -c full_page_writes=off -c synchronous_commit=off"
        server = [str(programs / "postgres"), *options.split(), "-h", ""]
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(
                ["/bin/sh", "-c", _UNTIL_STDIN_CLOSES, "sh", *server],
                user=user,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            ) as process,
        ):
            _wait_for(process, programs / "pg_isready", "-q", "-h", folder)
            yield f"postgresql+psycopg://tests@/postgres?host={folder}"


def _wait_for(process: subprocess.Popen[bytes], *is_ready: object) -> None:
    """Return when the server answers.

    Raises:
        TimeoutError: it ended, or did not answer within a minute.
    """
    deadline = time.monotonic() + 60
    while subprocess.run([str(word) for word in is_ready], check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            message = f"PostgreSQL does not answer: {' '.join(map(str, is_ready))}"
            raise TimeoutError(message)
        time.sleep(0.05)


def _user() -> str | None:
    """Whom the server runs as; None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    known = {passwd.pw_name for passwd in pwd.getpwall()}
    return next(name for name in _UNPRIVILEGED if name in known)


def _run(user: str | None, *command: object) -> None:
    subprocess.run(
        [str(word) for word in command],
        check=True,
        user=user,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # a pipe would stay open as long as the server runs
        timeout=120,
    )
