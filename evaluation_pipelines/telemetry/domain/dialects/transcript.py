"""Transcripts that agent programs keep of their sessions, as records of telemetry.

A reader of a program takes the lines of one file and makes records whose attributes are named like
the columns of ``agent_events``. They become OTLP requests: ids, prices, quarantine and erasure are
the same as for telemetry.
"""

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from evaluation_pipelines.telemetry.domain.attributes import (
    count,
    dollars,
    flag,
    milliseconds,
    text,
    tokens,
    without_credentials,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome, shell_class

TRANSCRIPT = "transcript."
"""Before the name of the program in the scope of records, and before the names of events."""

_NAMES = (
    *("user_prompt", "assistant_response", "tool_decision", "tool_result", "api_request"),
    *("api_error", "api_refusal", "compaction", "session_start", "session_end", "other"),
)
_COLUMNS = {
    text: (
        *("prompt_id", "request_id", "tool_use_id", "query_source", "subagent", "skill"),
        *("slash_command", "model", "provider", "tool_name", "tool_type", "tool_class"),
        *("success_source", "decision", "error_type", "error", "cost_source", "content"),
        "tool_parameters",
    ),
    tokens: (
        *("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"),
        "reasoning_tokens",
    ),
    milliseconds: ("duration_ms", "ttft_ms"),
    dollars: ("cost_usd",),
    flag: ("success",),
    count: ("exit_code",),
}
ID = "transcript.id"
"""Attribute with the program's own id of a record."""

OF_FIRST_LINE = frozenset({"branch", "folder", "nickname", "parent", "repository", "session"})
"""Names in a context that are read from the first line again: nothing else keeps them."""


def transcript_dialect(source_cli: str) -> Dialect:
    """Return the dialect of the records that a reader makes."""
    return Dialect(
        source_cli=source_cli,
        name_prefix=f"{TRANSCRIPT}{source_cli}.",
        scopes=(f"{TRANSCRIPT}{source_cli}",),
        event_names={f"{TRANSCRIPT}{name}": name for name in _NAMES},
        columns={name: (name, kind) for kind, names in _COLUMNS.items() for name in names},
        refine=lambda row, rest: True,  # noqa: ARG005 - rows are complete
        refined=frozenset(),
        identified_by=frozenset({ID}),
        sends_cost=False,
        ran_by={
            "effort": ("effort",),
            "service_tier": ("service_tier",),
            "speed": ("speed",),
            "cache_write_1h": ("cache_creation_1h_tokens",),
        },
    )


class Place(NamedTuple):
    """Where a session works: attributes of the resource of its records."""

    version: str | None = None
    repository: str | None = None
    branch: str | None = None


class Record(NamedTuple):
    """One event: offset of its line, its place, name without prefix, time, and columns."""

    offset: int
    place: Place
    name: str
    time: str | None
    columns: dict[str, Any]


class UnreadableLine(NamedTuple):
    """A line that cannot be read."""

    offset: int
    length_bytes: int
    reason: str


class LineKind(NamedTuple):
    """Version that wrote a line, its kind, and whether its reader knows this kind."""

    version: str
    kind: str
    is_known: bool


class Taken(NamedTuple):
    """Some lines of a transcript: as telemetry, numbers of records and defects, kinds of lines."""

    content: bytes
    records: int
    defects: int
    lines: Counter[LineKind]


class TranscriptHead(NamedTuple):
    """Session of a file, and id and time of its first message, which only a copy shares."""

    session_id: str | None = None
    first_id: str | None = None
    first_time: str | None = None


_IN_FOLDERS = re.compile(r"(?:file:|[/~.\\]|[A-Za-z]:[\\/]).*[\\/]([^\\/]+)[\\/]*")
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


def decode(decoder: msgspec.json.Decoder[Any], line: bytes) -> Any:
    """Decode a line, with a ``?`` for each half of a character.

    Raises:
        msgspec.ValidationError: It has another form.
        ValueError: It is no JSON.
    """
    try:
        return decoder.decode(line)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):
        if not _HALF_CHARACTER.search(line):
            raise ValueError("not JSON") from None
        whole = json.dumps(json.loads(line), ensure_ascii=False)
        return decoder.decode(whole.encode(errors="replace"))


@dataclass(slots=True)
class Call:
    """A tool call, with the context before its line, and the offset of its result."""

    name: str
    tool_class: str
    tool_type: str
    command: str | None
    parameters: str | None
    offset: int
    call_id: str | None = None
    namespace: str | None = None
    context: dict[str, Any] = field(default_factory=dict)
    result_offset: int | None = None


@dataclass(slots=True)
class Transcript(ABC):
    """Reader of one file of a program, which implements ``_read``.

    Args:
        keeps_texts: Prompts, replies, parameters and results become part of the records.
        session_id: Session of the file: lines of others are copies. None if lines name it.
        known_ids: Ids of lines of another session: this file has copies of them.
        repository_of: Returns the repository of a folder, None if it is not known.
        context: ``context`` of a reader of the same file, to go on behind what it read.

    Attributes:
        source_cli: Name of the program in the column ``source_cli``.
        variable: Environment variable with the folder of the program.
        home: That folder without the variable, in the home folder.
        patterns: Files of the folder, as ``fnmatch`` takes them. ``*`` matches slashes, too,
            if the first one follows a slash.
        top: Number of folders between that folder and those with all files of a session.
        has_store: Its files are a store of sessions, see ``opencode_store``. The reader knows by
            its context the lines it has read.
        versions: Versions whose transcripts were read, as the captures have them.
        unknown: Gaps of these transcripts, with commas. Tests expect ``branch`` and ``version``
            unless they are among them.
        records: Records so far, see ``take``.
        unreadable: Lines without JSON, likewise.
        lines: Offset and kind of each line, likewise.
    """

    source_cli: ClassVar[str]
    variable: ClassVar[str]
    home: ClassVar[str]
    patterns: ClassVar[tuple[str, ...]]
    top: ClassVar[int] = 0
    has_store: ClassVar[bool] = False
    versions: ClassVar[str]
    unknown: ClassVar[str]

    keeps_texts: bool = False
    session_id: str | None = None
    known_ids: Collection[str] = ()
    repository_of: Callable[[str], str | None] = lambda folder: None  # noqa: ARG005
    context: dict[str, Any] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    lines: list[tuple[int, tuple[str, str, bool]]] = field(default_factory=list)
    unreadable: list[UnreadableLine] = field(default_factory=list)
    _calls: dict[str, Call] = field(default_factory=dict)
    _is_interrupted: bool = False
    _places: dict[tuple[str | None, ...], Place] = field(default_factory=dict)

    @staticmethod
    def session_of(path: str) -> str | None:  # noqa: ARG004 - for those that override it
        """Return the session in the path of a file, None if only the lines name it."""
        return None

    @classmethod
    def head(cls, lines: Iterable[bytes]) -> TranscriptHead:
        """Return the session that the first line names, of a sub-agent that of its caller."""
        reader = cls()
        for line in islice(lines, 1):
            reader.read(line, 0)
        known = reader.context
        return TranscriptHead(known.get("parent") or known.get("session"))

    def read(self, line: bytes, offset: int, length_bytes: int = 0) -> None:
        """Read one line, or refuse it if only some of its ``length_bytes`` are here.

        Its faults are counted, never raised.
        """
        if length_bytes > len(line):
            self._refuse(line, offset, length_bytes, "longer than EVAL_MAX_LINE_BYTES")
            return
        try:
            kind = self._read(line, offset) if line.strip() else ""
        except msgspec.ValidationError:
            other = self._kind_of(line, offset)
            if other is not None and self._note_fault(line, offset):
                self._count(offset, other, is_known=False)
        except (ValueError, RecursionError):
            self._refuse(line, offset, len(line), "not JSON")
        else:
            if kind:
                self._count(offset, kind.removeprefix("?"), is_known=not kind.startswith("?"))

    def _refuse(self, line: bytes, offset: int, length_bytes: int, reason: str) -> None:
        if self._note_fault(line, offset):
            self.unreadable.append(UnreadableLine(offset, length_bytes, reason))

    def _note_fault(self, line: bytes, offset: int) -> bool:
        """Note an unreadable line, and return False if an earlier reading did."""
        return True

    def finish(self, *, is_final: bool) -> None:  # noqa: B027 - not all programs need it
        """Make records of messages that have ended, and of all others if the file is final."""

    def waits_from(self) -> tuple[int, dict[str, Any]] | None:
        """Return offset and context of the first line that later lines complete, if any.

        A call with a result after that line is read again with it.
        """
        first: Call | None = None
        for call in sorted(self._calls.values(), key=lambda call: -call.offset):
            is_open = call.result_offset is None
            if is_open or (first is not None and (call.result_offset or 0) >= first.offset):
                first = call
        return None if first is None else (first.offset, first.context)

    def _call(
        self,
        tool: str,
        arguments: msgspec.Raw,
        shells: Collection[str],
        classes: Mapping[str, str],
        offset: int,
    ) -> Call:
        """Return a call by the names of tools of its program."""
        command = command_in(arguments) if tool in shells else None
        tool_class = shell_class(command) if tool in shells else classes.get(tool, "other")
        tool_type = "builtin"
        if tool.startswith("mcp__"):
            tool_class = tool_type = "mcp"
        parameters = bytes(arguments).decode() if self.keeps_texts else None
        return Call(tool, tool_class, tool_type, command, parameters, offset)

    def _open(self, call_id: str, call: Call) -> None:
        call.context, call.call_id = dict(self.context), call_id or None
        self._calls[call_id] = call

    def _close(self, call_id: str | None, offset: int) -> Call | None:
        """Return the call of a result, None for an unknown call or a second result."""
        call = self._calls.get(call_id or "")
        if call is None or call.result_offset is not None:
            return None
        call.result_offset = offset
        if all(sent.result_offset is not None for sent in self._calls.values()):
            self._calls.clear()
            self._is_interrupted = False
        return call

    def _interrupt(self) -> None:
        """Let calls wait at a prompt: it can be queued while they run."""
        self._is_interrupted = bool(self._calls)

    def _answer(self) -> None:
        """Give up calls without a result at the next answer after a prompt: it ended their turn."""
        if self._is_interrupted:
            self._calls.clear()
        self._is_interrupted = False

    def take(self, end: int, path: str) -> Taken:
        """Return the result of the lines before ``end``, and forget it. ``path`` is for defects."""
        records, self.records = _split(self.records, end)
        unreadable, self.unreadable = _split(self.unreadable, end)
        lines, self.lines = _split(self.lines, end)
        defects = [_defect_line(path, line) for line in unreadable]
        content = b"".join((*defects, *_otlp_lines(self.source_cli, records)))
        return Taken(content, len(records), len(defects), _counted(kind for _, kind in lines))

    @abstractmethod
    def _read(self, line: bytes, offset: int) -> str:
        """Read one line and return its kind, with a question mark before an unknown one.

        The kind is empty for lines read before, and for lines counted by their parts.

        Raises:
            msgspec.ValidationError: It has another form.
            ValueError: It is no JSON.
        """

    def _kind_of(self, line: bytes, offset: int) -> str | None:
        try:
            return f"{decode(_KIND, line).type} of another form"
        except msgspec.ValidationError:
            return "of another form"
        except (ValueError, RecursionError):
            self._refuse(line, offset, len(line), "not JSON")
            return None

    def _count(self, offset: int, kind: str, *, is_known: bool) -> None:
        counted = self.context.get("version") or "", kind[:_KIND_CHARACTERS], is_known
        self.lines.append((offset, counted))

    def _place(self, version: str | None, folder: str | None, branch: str | None) -> Place:
        if version:
            self.context["version"] = version
        key = self.context.get("version"), folder, branch
        place = self._places.get(key)
        if place is None:
            repository = without_folders(self.repository_of(folder) if folder else None)
            place = self._places[key] = Place(key[0], repository, branch or None)
        return place

    def _add(
        self, offset: int, place: Place, name: str, time: str | None, columns: dict[str, Any]
    ) -> None:
        if time is None:
            time = self.context.get("time")
        else:
            self.context["time"] = time
        self.records.append(Record(offset, place, name, time, columns))

    def _append(self, offset: int, name: str, time: str | None, columns: dict[str, Any]) -> None:
        """Add a record of the session and place that ``context`` has."""
        known = self.context
        place = Place(known.get("version"), known.get("repository"), known.get("branch"))
        common = {
            "session.id": known.get("session"),
            "parent.conversation.id": known.get("parent"),
            "subagent": known.get("nickname"),
        }
        self._add(offset, place, name, time, common | columns)

    def _text(self, value: str | None) -> str | None:
        return value if self.keeps_texts else None

    def _without_texts(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of a record, with content only if it may be kept."""
        return row | {name: self._text(row.get(name)) for name in _TEXTS}

    def _prompt(self, content: str | None, folder: str | None) -> dict[str, Any]:
        """Return content and folder of a prompt, if they may be kept."""
        return {"content": self._text(content), "cwd": self._text(folder)}

    def _tool_columns(
        self, call_id: str | None, call: Call | None, *, success: bool | None, exit_code: int | None
    ) -> dict[str, Any]:
        """Return the columns of a call with its outcome."""
        columns: dict[str, Any] = {"tool_use_id": call_id, "success": success}
        if call is not None:
            columns |= {
                "tool_name": call.name,
                "tool_class": call.tool_class,
                "tool_type": call.tool_type,
                "tool_parameters": self._text(call.parameters),
            }
        settle_outcome(columns, exit_code, call.command if call else None)
        return columns


def without_folders(remote: str | None) -> str | None:
    """Return a remote of git without users and passwords.

    Of one in a folder only its name: folders name people.
    """
    found = _IN_FOLDERS.fullmatch(remote or "")
    return without_credentials(found[1] if found else remote)


_Item = TypeVar("_Item", bound=tuple[Any, ...])


def _split(items: list[_Item], end: int) -> tuple[list[_Item], list[_Item]]:
    """Return the items whose offset is before ``end``, and the others."""
    return [item for item in items if item[0] < end], [item for item in items if item[0] >= end]


def _counted(kinds: Iterable[tuple[str, str, bool]]) -> Counter[LineKind]:
    return Counter({LineKind(*kind): number for kind, number in Counter(kinds).items()})


class _Arguments(msgspec.Struct, gc=False):
    command: Any = None


_ARGUMENTS = msgspec.json.Decoder(_Arguments)


def command_in(arguments: msgspec.Raw) -> str | None:
    """Return the command of a shell's arguments.

    Raises:
        msgspec.ValidationError: They are no object.
    """
    command = _ARGUMENTS.decode(arguments).command if arguments else None
    return command if isinstance(command, str) else None


class _Kind(msgspec.Struct, gc=False):
    type: str = "without type"


_KIND = msgspec.json.Decoder(_Kind)
_TEXTS = ("content", "tool_parameters", "error")
_RECORDS_PER_REQUEST = 256
_KIND_CHARACTERS = 100
encode = msgspec.json.Encoder().encode


def texts_in(content: Any) -> str:
    """Return a text, or that of parts, each an object with ``text``."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _otlp_lines(program: str, records: list[Record]) -> Iterator[bytes]:
    """Yield OTLP requests, one a line, of records in their order."""
    for place, group in groupby(records, key=lambda record: record.place):
        same_place = [_log_record(record) for record in group]
        for start in range(0, len(same_place), _RECORDS_PER_REQUEST):
            logs = same_place[start : start + _RECORDS_PER_REQUEST]
            resource = {
                "service.name": program.replace("_", "-"),
                "service.version": place.version,
                "repository": place.repository,
                "branch": place.branch,
            }
            scope = {"scope": {"name": f"{TRANSCRIPT}{program}"}, "logRecords": logs}
            request = {"resource": {"attributes": _attributes(resource)}, "scopeLogs": [scope]}
            yield encode({"resourceLogs": [request]}) + b"\n"


def _defect_line(path: str, line: UnreadableLine) -> bytes:
    """Return a landing line that goes to quarantine in place of a line of a transcript."""
    where = f"{path}, byte {line.offset}, {line.length_bytes} bytes"
    return encode({"transcriptDefect": f"transcript {where}: {line.reason}"}) + b"\n"


def _log_record(record: Record) -> dict[str, Any]:
    columns = {"event.name": f"{TRANSCRIPT}{record.name}", "event.timestamp": record.time}
    return {"attributes": _attributes(columns | record.columns)}


def _attributes(values: dict[str, Any]) -> msgspec.Raw:
    """Encode values one by one: most time would go into dictionaries of dictionaries."""
    encoded = [
        _before(name, value.__class__) + encode(value)
        for name, value in values.items()
        if value is not None
    ]
    return msgspec.Raw(b"[" + b"}},".join(encoded) + b"}}]" if encoded else b"[]")


@lru_cache(maxsize=1024)
def _before(name: str, kind: type) -> bytes:
    return f'{{"key":"{name}","value":{{"{_VALUE_KINDS[kind]}":'.encode()


_VALUE_KINDS = {str: "stringValue", int: "intValue", bool: "boolValue", float: "doubleValue"}
