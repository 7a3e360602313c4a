"""Transcripts of agent programs on this machine, found and read in place.

Nothing is written there. Links are not followed, and files of other users are left alone.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from evaluation_pipelines.settings.data import TelemetrySettings
from evaluation_pipelines.storage.landing import SkippedFile
from evaluation_pipelines.storage.raw_lines import RawLine, read_lines
from evaluation_pipelines.telemetry.domain.dialects.registry import TRANSCRIPT_READERS
from evaluation_pipelines.telemetry.domain.dialects.transcript import (
    OF_FIRST_LINE,
    LineKind,
    Transcript,
    TranscriptHead,
)
from evaluation_pipelines.telemetry.opencode_store import (
    StoredSession,
    session_lines,
    stored_sessions,
)

_HEAD_BYTES = 64 * 1024
_UUID = re.compile(rb'"uuid":"([^"]{1,100})"')
_ORIGIN = re.compile(r'\[remote "origin"\][^\[]*?\n\s*url\s*=\s*(\S+)')
_MOST_EMPTY_SESSIONS = 20
_RECORDS_PER_PIECE = 4096
_LONGEST_LINE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """A transcript as it was found.

    Attributes:
        program: Reader of the program that writes it.
        path: Its full path.
        group: The folder with all files of its session.
        device, inode, size_bytes, modified_at_ns: From the system.
    """

    program: type[Transcript]
    path: Path
    group: Path
    device: int
    inode: int
    size_bytes: int
    modified_at_ns: int

    def open(self) -> BinaryIO:
        """Open the file.

        Raises:
            OSError: It cannot be read, or is another one by now.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        handle = os.fdopen(descriptor, "rb")
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (self.device, self.inode):
            handle.close()
            raise OSError(f"{self.path} was replaced while it was read")
        return handle

    def head(self) -> TranscriptHead:
        """Return session, id and time in its first lines, as far as it can be read."""
        with suppress(OSError), self.open() as handle:
            lines = read_lines(BytesIO(handle.read(_HEAD_BYTES)), 0, _HEAD_BYTES)
            head = self.program.head(line.text for line in lines)
            return head._replace(session_id=self.session_id or head.session_id)
        return TranscriptHead(self.session_id)

    @property
    def is_document(self) -> bool:
        """True for one JSON document instead of lines."""
        return self.path.suffix == ".json"

    @property
    def session_id(self) -> str | None:
        """The session in its name."""
        return self.program.session_of(self.path.as_posix())


@dataclass(frozen=True, slots=True)
class StoredTranscript(TranscriptFile):
    """A session in a store, as lines.

    Attributes:
        path: Name of the session, in the folder or database of its store.
        store: The file that has it.
        stored: Its name there, and that of the session of a person.
    """

    store: Path
    stored: StoredSession

    def open(self) -> BinaryIO:
        """Return the lines of the session.

        Raises:
            OSError: They cannot be read.
        """
        return BytesIO(b"".join(session_lines(self.store, self.stored.session_id)))

    def head(self) -> TranscriptHead:
        """Return the session of a person."""
        return TranscriptHead(self.stored.root)


def find_transcripts() -> tuple[list[TranscriptFile], list[SkippedFile]]:
    """Return the transcripts of this machine, by path, and skipped files with the reason."""
    found: list[TranscriptFile] = []
    skipped: list[SkippedFile] = []
    for program in TRANSCRIPT_READERS:
        root = Path(os.environ.get(program.variable) or Path.home() / program.home)
        for path in _matching(root, program.patterns):
            try:
                file = _look(program, path, root)
                files, why_not = _stored(file) if program.has_store else ([file], None)
                found += files
            except OSError as error:
                why_not = error.strerror or str(error)
            if why_not is not None:
                skipped.append(SkippedFile(os.fsencode(path).decode(errors="replace"), why_not))
    return sorted(found, key=lambda file: str(file.path)), skipped


def _matching(root: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """Yield the files of a folder that patterns name. Links to folders are not followed."""
    for pattern in patterns:
        known = pattern.partition("*")[0]
        top = root / known.rpartition("/")[0]
        for folder, folders, names in os.walk(top, onerror=lambda error: None):  # noqa: ARG005
            if not known.endswith("/"):
                folders.clear()  # a snapshot has very many
            for name in names:
                path = Path(folder, name)
                if fnmatchcase(path.relative_to(root).as_posix(), pattern):
                    yield path


def _look(program: type[Transcript], path: Path, root: Path) -> TranscriptFile:
    """Return a file of this user.

    Raises:
        OSError: It is to be passed over.
    """
    status = path.lstat()
    if not S_ISREG(status.st_mode):
        raise OSError("a link, or not a regular file")
    if os.fsencode(path).decode(errors="replace") != str(path):
        raise OSError("its name is not UTF-8")
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise OSError("it belongs to another user")
    group = Path(root, *path.relative_to(root).parts[: program.top])
    times = (status.st_size, status.st_mtime_ns)
    return TranscriptFile(program, path, group, status.st_dev, status.st_ino, *times)


def _stored(file: TranscriptFile) -> tuple[list[TranscriptFile], str | None]:
    """Return the sessions of a store, and why others are not read.

    Raises:
        OSError: It cannot be read.
    """
    store = file.path
    folder = store if store.suffix == ".db" else store.parent
    sessions, why_not = stored_sessions(store)
    files: list[TranscriptFile] = [
        StoredTranscript(
            program=file.program,
            path=folder / str(session.session_id),
            group=folder / session.root,
            device=file.device,
            inode=file.inode,
            size_bytes=session.size_bytes,
            modified_at_ns=session.modified_at_ns,
            store=store,
            stored=session,
        )
        for session in sessions
    ]
    return files, why_not


@cache
def repository_of(folder: str) -> str | None:
    """Return the URL of ``origin`` of the repository that a folder is in, None without one."""
    place = Path(folder)
    for parent in (place, *islice(place.parents, 20)):
        with suppress(OSError, ValueError):
            git = parent / ".git"
            if git.is_file():  # a worktree: .git/worktrees/<name> of its repository
                git = Path(parent, git.read_text("utf-8").partition("gitdir:")[2].strip()).parents[
                    1
                ]
            if (git / "config").is_file():
                found = _ORIGIN.search((git / "config").read_text("utf-8"))
                return found and found[1]
    return None


class Piece(NamedTuple):
    """OTLP lines of a transcript, kinds of its lines, and offset and context of a next piece."""

    content: bytes
    lines: Counter[LineKind]
    end: int
    context: dict[str, Any]
    is_last: bool = False


def read_transcript(
    file: TranscriptFile,
    settings: TelemetrySettings,
    position: int = 0,
    *,
    known_ids: Collection[str] = (),
    context: Mapping[str, Any] = MappingProxyType({}),
    is_final: bool = True,
) -> Iterator[Piece]:
    """Yield the complete lines of a transcript after ``position``, as telemetry.

    Args:
        file: The file.
        settings: Limits, and ``transcript_texts``.
        position: Where the last piece of an earlier reading ended.
        known_ids: Ids of copied lines, see ``Transcript``.
        context: Its context.
        is_final: Nothing will follow: open calls and messages count as they are.

    Raises:
        OSError: The file cannot be read.
    """
    limit, end, keeps_texts = settings.max_line_bytes, position, settings.transcript_texts
    with file.open() as handle:
        start = _start(file, handle, settings) if position else {}
        reader = file.program(
            keeps_texts, file.session_id, known_ids, repository_of, {**start, **context}
        )
        for line in _lines(file, handle, position, limit):
            if not line.is_terminated:
                break
            reader.read(line.text, line.offset, line.length_bytes)
            end = line.next_offset
            if len(reader.records) >= _RECORDS_PER_PIECE:
                yield _piece(reader, end, str(file.path))
    reader.finish(is_final=is_final)
    yield _piece(reader, end, str(file.path), is_final=is_final)._replace(is_last=True)


def _start(file: TranscriptFile, handle: BinaryIO, settings: TelemetrySettings) -> dict[str, Any]:
    """Return who works where, by the first line of a file."""
    reader = file.program(settings.transcript_texts, repository_of=repository_of)
    for line in islice(read_lines(handle, 0, settings.max_line_bytes), 1):
        reader.read(line.text, 0)
    return {name: value for name, value in reader.context.items() if name in OF_FIRST_LINE}


def _lines(file: TranscriptFile, handle: BinaryIO, position: int, limit: int) -> Iterator[RawLine]:
    """Yield the lines of a file. A document, which is rewritten as a whole, is one line."""
    if not file.is_document:
        yield from read_lines(handle, position, limit)
        return
    content = handle.read(limit + 1)
    yield RawLine(0, content[:limit], len(content), len(content) + 1)


def _piece(reader: Transcript, end: int, path: str, *, is_final: bool = False) -> Piece:
    context, waits = reader.context, reader.waits_from()
    if not is_final and waits is not None:
        end, context = waits
    taken = reader.take(end, path)
    kept = {name: value for name, value in context.items() if name not in OF_FIRST_LINE}
    return Piece(taken.content, taken.lines, end, kept)


def older_relatives(
    file: TranscriptFile, heads: Mapping[TranscriptFile, TranscriptHead]
) -> list[TranscriptFile]:
    """Return the older files with the same first line: a fork copies its parent."""
    head = heads[file]
    if head.first_id is None:
        return []
    return [
        relative
        for relative, other in heads.items()
        if other.first_id == head.first_id and born(relative, other) < born(file, head)
    ]


def copied_ids(relatives: Iterable[TranscriptFile]) -> frozenset[str]:
    """Return the ids of the lines of some files."""
    found: set[str] = set()
    for relative in relatives:
        with suppress(OSError), relative.open() as handle:
            for line in read_lines(handle, 0, _LONGEST_LINE_BYTES):
                found.update(match.decode() for match in _UUID.findall(line.text))
    return frozenset(found)


def born(file: TranscriptFile, head: TranscriptHead) -> tuple[str, str]:
    """Return the order of files with the same first line: a fork is younger than its parent."""
    return head.first_time or "", str(file.path)


@dataclass(frozen=True, slots=True)
class LocalSession:
    """A session of this machine.

    Attributes:
        files: Its transcripts as telemetry by path, its own first.
        others: Ids of other recent sessions, by time of their last line, latest first.
    """

    files: list[tuple[str, bytes]]
    others: list[str]

    @property
    def has_tools(self) -> bool:
        """True if it has a call of a tool: without one most scores are unknown."""
        return any(b"transcript.tool_result" in content for _, content in self.files)


def local_session(settings: TelemetrySettings, id_start: str = "") -> LocalSession | None:
    """Return the session whose transcript was written last, with its sub-agents.

    Sessions without an answer, or whose id has another start, are passed over, and those without a
    call of a tool if another one has some. None without a session.
    """
    files, _ = find_transcripts()
    latest = sorted(files, key=lambda file: file.modified_at_ns, reverse=True)
    groups: dict[str, Path] = {}
    for file in latest if id_start else latest[:_MOST_EMPTY_SESSIONS]:
        found = file.head().session_id
        if found is not None and found.startswith(id_start):
            groups.setdefault(found, file.group)
    latest_answered = None
    for name, group in groups.items():
        contents = _session(name, [file for file in files if file.group == group], settings)
        if contents:
            session = LocalSession(contents, [other for other in groups if other != name])
            if id_start or session.has_tools:
                return session
            latest_answered = latest_answered or session
    return latest_answered


def _session(
    session_id: str, group: Sequence[TranscriptFile], settings: TelemetrySettings
) -> list[tuple[str, bytes]]:
    """Return the transcripts of a session as telemetry by path: empty without an answer."""
    heads = {file: file.head() for file in group}
    own = [file for file in group if heads[file].session_id == session_id]
    contents = []
    for file in sorted(own, key=lambda file: session_id not in file.path.name):  # its own first
        with suppress(OSError):
            known_ids = copied_ids(older_relatives(file, heads))
            pieces = read_transcript(file, settings, known_ids=known_ids)
            contents.append((str(file.path), b"".join(piece.content for piece in pieces)))
    has_work = any(b"transcript.api_request" in content for _, content in contents)
    return contents if has_work else []
