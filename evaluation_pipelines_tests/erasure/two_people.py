"""Stores with the sessions of two people, and a search of every byte of them."""

from pathlib import Path

import polars as pl

from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import DAY_S

HASH = "5a" * 32
EMAIL, USER, PHRASE, SESSION = "ada@orchard.test", "ada-worker-7", "purple zeppelin", "sess-of-ada"
TRACES = (EMAIL, USER, PHRASE, SESSION)
"""What of Ada must be found nowhere."""


def of_ada(name: str = SESSION, second: float = 0) -> bytes:
    """A session of Ada, with all of her traces."""
    return session_with_texts(
        name, second, PHRASE, user__email=EMAIL, enduser__id=USER, user__id=HASH
    )


def of_ben(name: str = "sess-of-ben", second: float = 0) -> bytes:
    """A session of Ben."""
    return session_with_texts(name, second, user__email="ben@orchard.test", enduser__id="ben")


def two_people() -> bytes:
    """Three lines: sessions of both on one day, and one of Ada alone on the next."""
    return of_ada() + of_ben() + of_ada(f"{SESSION}-2", DAY_S)


def fill_fresh(workplace: Workplace, content: bytes) -> Path:
    """Land, ingest and build in files that no other test shares."""
    path = workplace.land("logs.jsonl", content)
    workplace.ingest()
    workplace.build()
    return path


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".parquet":
        return content + repr(pl.read_parquet(path).rows()).encode()
    return content


def found(folder: Path, *traces: str) -> dict[str, list[str]]:
    """File -> the traces that its bytes have, of a folder; Parquet is also read."""
    wanted = traces or TRACES
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    contents = {path: _content(path) for path in files}
    return {
        path.relative_to(folder).as_posix(): names
        for path, content in contents.items()
        if (names := [name for name in wanted if name.encode() in content])
    }
