"""Where OpenCode keeps its sessions: a database, until 1.1 a file for each message and part.

Both are read without a change to any file, also while OpenCode writes to them.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple
from urllib.parse import quote

from evaluation_pipelines.formatting import pluralize

_SESSIONS = """
    SELECT session.id, session.parent_id,
        max(ifnull(CAST(session.time_updated AS INTEGER), 0),
            ifnull(CAST(max(message.time_updated) AS INTEGER), 0)),
        sum(ifnull(length(message.data), 1))
    FROM session JOIN message ON message.session_id = session.id GROUP BY session.id
"""
_SESSION = "SELECT id, parent_id, version, directory, time_created FROM session WHERE id = ?"
_DATA = "SELECT id, CAST(ifnull(data, '') AS TEXT) FROM"  # empty is refused: no JSON
_MESSAGES = f"{_DATA} message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = f"{_DATA} part WHERE message_id = ? ORDER BY id"
_OF_VERSION_2 = """
    SELECT count(*) FROM session_v2 LEFT JOIN session USING (id)
    WHERE session.id IS NULL OR session_v2.time_updated > session.time_updated
"""
_LATEST_MS = 2**63 // 10**6 - 1
_DEEPEST = 32
"""How many sub-agents may have called each other."""


class StoredSession(NamedTuple):
    """A session with messages. ``root`` is itself, or of a sub-agent that of a person.

    ``session_id`` is as stored: no text in a broken database.
    """

    session_id: Any
    root: str
    size_bytes: int
    modified_at_ns: int


def stored_sessions(path: Path) -> tuple[list[StoredSession], str | None]:
    """Return the sessions of a database or a session's file, and why others are not read.

    Raises:
        OSError: They cannot be read.
    """
    if path.suffix == ".db":
        with closing(_connect(path)) as connection:
            rows, why_not = _rows(connection, _SESSIONS), _why_not_all(connection)
        parents = {name: parent for name, parent, *_ in rows}
        sessions = [
            StoredSession(
                name, str(_root(name, parents.get)), size, max(0, min(at, _LATEST_MS)) * 10**6
            )
            for name, _, at, size in rows
        ]
        return sessions, why_not
    root = _root(path.stem, lambda name: _document(path.parent / f"{name}.json").get("parentID"))
    found = [file.lstat() for file in (path, *_files(path.parents[2] / "message" / path.stem))]
    size_bytes = sum(status.st_size for status in found) if len(found) > 1 else 0
    modified_at_ns = max(status.st_mtime_ns for status in found)
    return [StoredSession(path.stem, root, size_bytes, modified_at_ns)], None


def _why_not_all(connection: sqlite3.Connection) -> str | None:
    """Return why a database has sessions that are not read, None if all are.

    Version 2 copies the sessions to tables of its own, and goes on there.
    """
    try:
        tables = _rows(connection, "SELECT 1 FROM sqlite_master WHERE name = 'session_v2'")
        number = _rows(connection, _OF_VERSION_2)[0][0] if tables else 0
    except OSError as error:  # tables of yet another version
        return str(error)
    return f"{pluralize(number, 'session')} with messages of OpenCode 2" if number else None


def session_lines(path: Path, session_id: Any) -> Iterator[bytes]:
    """Yield a session, then its messages with their parts, each on a line.

    Raises:
        OSError: They cannot be read.
    """
    if path.suffix == ".db":
        yield from _database_lines(path, session_id)
        return
    root = path.parents[2]
    yield _session_line(path.stem, _content(path))
    for message in sorted(_files(root / "message" / session_id), key=_created):
        parts = [_content(part) for part in _files(root / "part" / message.stem)]
        yield _line(message.stem, _content(message), parts)


def _root(session_id: Any, parent_of: Callable[[str], Any]) -> Any:
    for _ in range(_DEEPEST):
        if not isinstance(parent := parent_of(session_id), str):
            break
        session_id = parent
    return session_id


def _database_lines(path: Path, session_id: Any) -> Iterator[bytes]:
    before = path.stat()
    with closing(_connect(path)) as connection:
        for name, parent, version, directory, created in _rows(connection, _SESSION, session_id):
            session = {"id": name, "parentID": parent, "version": version, "directory": directory}
            yield _session_line(name, _encoded(session | {"time": {"created": created}}))
        for message, data in _rows(connection, _MESSAGES, session_id):
            parts = [_with_id(*part) for part in _rows(connection, _PARTS, message)]
            yield _line(message, _with_id(message, data), parts)
    after = path.stat()
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise OSError(f"{path} was changed while it was read")


def _session_line(name: Any, info: bytes) -> bytes:
    return b'{"key":%b,"info":%b}\n' % (_encoded(str(name)), info)


def _line(message: Any, info: bytes, parts: Iterable[bytes]) -> bytes:
    key = _encoded(str(message))
    return b'{"key":%b,"info":%b,"parts":[%b]}\n' % (key, info, b",".join(parts))


def _encoded(value: Any) -> bytes:
    """Encode a value, and bytes so that the reader refuses them."""
    return json.dumps(value, default=lambda sent: {"bytes": len(sent)}).encode()


def _with_id(name: Any, data: str) -> bytes:
    rest = data.lstrip().removeprefix("{").replace("\n", " ")
    comma = b"" if rest.lstrip().startswith("}") else b","
    return b'{"id":%b%b%b' % (_encoded(name), comma, rest.encode())


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database so that neither it nor its log or index of it is written."""
    log = Path(f"{path}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    option = "readonly_shm=1" if has_log else "immutable=1"
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&{option}", uri=True)
    except sqlite3.Error as error:
        raise OSError(f"{path} cannot be read: {error}") from None
    connection.text_factory = lambda text: text.decode(errors="replace")
    return connection


def _rows(connection: sqlite3.Connection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"the database of OpenCode cannot be read: {error}") from None


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder by name."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    return [folder / name for name in names if name.endswith(".json")]


def _content(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as handle:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise OSError(f"{path} is no regular file of this user")
        return handle.read().replace(b"\r", b" ").replace(b"\n", b" ")


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_content(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _created(message: Path) -> float:
    """Return the time of a message. Ids are not in its order: they start again after two years."""
    time = _document(message).get("time")
    created = time.get("created") if isinstance(time, dict) else None
    return created if isinstance(created, int | float) else 0
