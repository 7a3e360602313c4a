"""Files and batches of an OpenAI-compatible endpoint: their lines, and the routes for them.

A request is known by its ``custom_id``: the id of its judgment and its turn. Results come in any
order.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from evaluation_pipelines.judging.endpoint.replies import one_line_excerpt, status_error
from evaluation_pipelines.judging.endpoint.transport import (
    MAX_BODY_BYTES,
    BodyTooLargeError,
    client_options,
    connection_options,
    limited_stream,
)
from evaluation_pipelines.settings.judging import JudgeEndpoint

if TYPE_CHECKING:
    import httpx2
    from openai.types import Batch

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

MAX_REQUESTS = 50_000
"""Requests in one file, the limit of the OpenAI Batch API."""

MAX_BYTES = 200_000_000
"""Bytes of one file, its other limit."""

UNREADABLE = (ValueError, RecursionError, TypeError, KeyError, AttributeError)
"""What a line raises that is none."""

ENDPOINT: Final = "/v1/chat/completions"

MAX_LINE_BYTES = 16_000_000
"""Longer lines of files are neither requests nor answers."""

_MAX_FILE_BYTES = 4_000_000_000
"""50,000 answers of 20,000 tokens each."""

_MAX_LISTED = 10_000
"""Batches or files of a list that are looked at, newest first."""

_LATEST_S = 10**11
"""No time: some endpoints report milliseconds."""

_CHUNK_BYTES = 1_000_000
_MARK = "evaluation_batch"
"""Key of the metadata by which a batch is found again."""

_ENDED = frozenset(("completed", "failed", "expired", "cancelled"))
_NO_ROUTE = frozenset((404, 405, 501))
_RETRIED = frozenset((408, 409, 429))
_NOT_EXPECTED = (OSError, ValueError, TypeError, AttributeError)
"""What the library raises when an answer is not what it expects."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Result of one request.

    Attributes:
        score_id: Its judgment.
        turn: Its turn.
        status: HTTP status; ``None`` if the request was never answered.
        body: Body of the answer, decoded; ``None`` without an answer.
        reason: Why there is no answer; empty if there is one.
    """

    score_id: str
    turn: str
    status: int | None
    body: Any = None
    reason: str = ""

    @property
    def custom_id(self) -> str:
        """Id of the request."""
        return _custom_id(self.score_id, self.turn)


def request_line(score_id: str, turn: str, body: Mapping[str, Any]) -> bytes:
    """Return the line of one request."""
    request = {
        "custom_id": _custom_id(score_id, turn),
        "method": "POST",
        "url": ENDPOINT,
        "body": body,
    }
    return json.dumps(request, ensure_ascii=False).encode() + b"\n"


def read_result(line: str) -> BatchResult | None:
    """Parse a line of an output or error file; ``None`` if it is not the result of a request."""
    try:
        document = json.loads(line)
        score_id, separator, turn = document["custom_id"].partition(":")
        response, error = document.get("response"), document.get("error")
        if not separator:
            return None
        if isinstance(response, dict) and isinstance(response.get("status_code"), int):
            return BatchResult(score_id, turn, response["status_code"], response.get("body"))
    except UNREADABLE:
        return None
    message = error.get("message") if isinstance(error, dict) else None
    return BatchResult(score_id, turn, None, reason=str(message or "no answer in the batch"))


def _custom_id(score_id: str, turn: str) -> str:
    return f"{score_id}:{turn}"


class BatchApiError(Exception):
    """A request to the routes of batches failed.

    Attributes:
        reason: A sentence for users.
        is_refused: True if the endpoint refused it, so that it certainly had no effect.
        is_missing: True if the endpoint does not know the route or the object.
    """

    def __init__(self, reason: str, *, is_refused: bool, is_missing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_refused = is_refused
        self.is_missing = is_missing


@dataclass(frozen=True, slots=True)
class ProviderBatch:
    """A batch as the provider has it.

    Attributes:
        id: Its id at the provider.
        status: Its status there.
        input_file_id, output_file_id, error_file_id: Its files; ``None`` if there is none.
        completed, failed: Number of requests.
        expires_at: Seconds since 1970 after which it is given up; ``None`` if not reported.
        errors: Why the whole batch failed; empty if it did not.
    """

    id: str
    status: str
    input_file_id: str | None
    output_file_id: str | None
    error_file_id: str | None
    completed: int
    failed: int
    expires_at: int | None
    errors: str

    @property
    def result_files(self) -> list[str]:
        """The files of results that there are."""
        return [file_id for file_id in (self.output_file_id, self.error_file_id) if file_id]

    @property
    def has_ended(self) -> bool:
        """True if nothing more will come."""
        return self.status in _ENDED


class BatchApi:
    """Files and batches of one endpoint; use as ``with``.

    Attributes:
        secret: The API key, which answers may repeat; ``None`` if there is none.
    """

    def __init__(self, endpoint: JudgeEndpoint, timeout_s: float) -> None:
        """Configure the client; ``timeout_s`` limits each read and write of a request."""
        import openai  # takes longer than the rest of the command line's start

        key = None if endpoint.api_key is None else endpoint.api_key.get_secret_value()
        self.secret = key
        # A request to create something is never repeated here: its answer may be lost.
        self._client = openai.OpenAI(
            **client_options(endpoint.base_url, key, timeout_s),
            http_client=openai.DefaultHttpx2Client(
                **connection_options(), event_hooks={"response": [_limit_body]}
            ),
        )
        self._uses, self._use = 1, Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        """Close the client after its last use: a call may go on after an interruption."""
        with self._use:
            self._uses += change
            if self._uses == 0:
                self._client.close()

    def why_not(self) -> str | None:
        """Return why no batch can be created now; ``None`` if the endpoint has these routes."""
        try:
            with self._errors():
                self._client.batches.list(limit=1)
        except BatchApiError as error:
            if not error.is_missing:
                return error.reason
            return (
                f"the endpoint has no Batch API ({error.reason}): set EVAL_JUDGE_MODE=direct, or "
                "OPENAI_BASE_URL to an endpoint that has one"
            )
        return None

    def upload(self, path: Path, batch_id: str) -> str:
        """Upload a file of requests and return its id."""
        with self._errors(), path.open("rb") as content:
            file = self._client.files.create(file=(_file_name(batch_id), content), purpose="batch")
            return file.id

    def create(self, file_id: str, batch_id: str) -> ProviderBatch:
        """Create a batch of an uploaded file."""
        with self._errors():
            created = self._client.batches.create(
                input_file_id=file_id,
                endpoint=ENDPOINT,
                completion_window="24h",
                metadata={_MARK: batch_id},
            )
            return _batch(created, self.secret)

    def retrieve(self, provider_batch_id: str) -> ProviderBatch:
        """Return the current state of a batch."""
        with self._errors():
            return _batch(self._client.batches.retrieve(provider_batch_id), self.secret)

    def cancel(self, provider_batch_id: str) -> None:
        """Ask the provider to end a batch soon, with the answers that it has."""
        with self._errors():
            self._client.batches.cancel(provider_batch_id)

    def find(self, batch_id: str, file_id: str | None) -> ProviderBatch | None:
        """Return the batch that was created for ``batch_id``; ``None`` if there is none.

        It is known by its metadata, or by its file ``file_id``: not every endpoint lists metadata.
        """
        with self._errors():
            for batch in islice(self._client.batches.list(limit=100), _MAX_LISTED):
                is_marked = (batch.metadata or {}).get(_MARK) == batch_id
                if is_marked or (file_id and batch.input_file_id == file_id):
                    return _batch(batch, self.secret)
        return None

    def check_file(self, file_id: str) -> None:
        """Raise an error if the endpoint does not know a file."""
        with self._errors():
            self._client.files.retrieve(file_id)

    def lines(self, file_id: str) -> Iterator[str]:
        """Yield the lines of a file, without those that are too long for an answer."""
        with self._errors(), self._client.files.with_streaming_response.content(file_id) as answer:
            for line in _lines(answer.iter_bytes(_CHUNK_BYTES)):
                yield line.decode("utf-8-sig", "replace")

    def delete(self, file_id: str) -> None:
        """Delete a file; one that is gone already is fine."""
        try:
            with self._errors():
                self._client.files.delete(file_id)
        except BatchApiError as error:
            if not error.is_missing:
                raise

    def delete_uploads(self, batch_id: str) -> None:
        """Delete the files that were uploaded for ``batch_id``: a batch of them cannot run."""
        with self._errors():
            name = _file_name(batch_id)
            found = [
                file.id
                for file in islice(self._client.files.list(purpose="batch"), _MAX_LISTED)
                if file.filename == name
            ]
        for file_id in found:
            self.delete(file_id)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import httpx2
        import openai

        self._count(+1)
        try:
            yield
        except openai.APIStatusError as error:
            status = error.status_code
            reason = status_error(status, error.body, None, self.secret).reason
            is_refused = 300 <= status < 500 and status not in _RETRIED
            raise BatchApiError(
                reason, is_refused=is_refused or status == 501, is_missing=status in _NO_ROUTE
            ) from None
        except BodyTooLargeError as error:
            raise BatchApiError(str(error), is_refused=False) from None
        except (openai.OpenAIError, httpx2.HTTPError, *_NOT_EXPECTED) as error:
            why = one_line_excerpt(str(error.__cause__ or error), self.secret)
            raise BatchApiError(f"the endpoint failed: {why}", is_refused=False) from None
        finally:
            self._count(-1)


async def in_thread(
    call: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Result:
    """Await a call in a thread of its own; an interrupted run does not wait for its end.

    It would wait for that of ``asyncio.to_thread``, and keep the lock for as long.
    """
    result: Future[_Result] = Future()
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(call(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - it is raised by whoever awaits
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(result)


def _limit_body(response: "httpx2.Response") -> None:
    """Count the bytes of an answer while it is read; only files are long."""
    is_file = response.request.url.path.endswith("/content")
    most = _MAX_FILE_BYTES if is_file else MAX_BODY_BYTES
    response.stream = limited_stream(response.stream, most)


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split at line feeds alone: JSON may contain all other line breaks of Unicode as they are."""
    rest, is_too_long = b"", False
    for chunk in chunks:
        *ended, rest = (rest + chunk).split(b"\n")
        for line in ended:
            if not is_too_long and len(line) <= MAX_LINE_BYTES:
                yield line
            is_too_long = False
        if is_too_long or len(rest) > MAX_LINE_BYTES:
            rest, is_too_long = b"", True
    if rest:
        yield rest


def _file_name(batch_id: str) -> str:
    return f"evaluation-{batch_id}.jsonl"


def _bounded(reported: Any, end: int) -> int | None:
    """Return a number that the ledger can store; ``None`` for all else."""
    return reported if isinstance(reported, int) and 0 < reported < end else None


def _batch(batch: "Batch", secret: str | None) -> ProviderBatch:
    counts: Any = batch.request_counts
    errors = [
        error.message or error.code or "" for error in (batch.errors and batch.errors.data) or ()
    ]
    return ProviderBatch(
        *(batch.id, one_line_excerpt(batch.status, secret), batch.input_file_id or None),
        *(batch.output_file_id, batch.error_file_id),
        completed=_bounded(counts and counts.completed, 2**31) or 0,
        failed=_bounded(counts and counts.failed, 2**31) or 0,
        expires_at=_bounded(batch.expires_at, _LATEST_S),
        errors=one_line_excerpt("; ".join(filter(None, errors)), secret),
    )
