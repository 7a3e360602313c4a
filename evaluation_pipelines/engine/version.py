"""Version of this program, by the content of its files."""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from evaluation_pipelines.storage.sql_files import SQL_ROOTS

_PROGRAM = Path(__file__).resolve().parents[1]


@cache
def program_version() -> str:
    """Return a hash of the program: workers of another one would build other rows."""
    content = hashlib.blake2b(digest_size=6)
    for name, path in _files():
        content.update(f"{name}\0".encode())
        content.update(path.read_bytes())
    return content.hexdigest()


def _files() -> Iterator[tuple[str, Path]]:
    """Yield Python and SQL files, under names that a wheel and a checkout share."""
    root = next((each for each in SQL_ROOTS if each.is_dir()), SQL_ROOTS[0])
    for folder, pattern in ((_PROGRAM, "*.py"), (root, "*.sql")):
        for path in sorted(folder.rglob(pattern)):
            yield path.relative_to(folder).as_posix(), path
