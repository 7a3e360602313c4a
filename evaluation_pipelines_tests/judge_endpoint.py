"""A local OpenAI-compatible endpoint with scripted answers.

In a test: ``with open_judge_endpoint() as judge: judge.script(rate_limited()); ...``. In a separate
process: ``open_judge_process``, or ``python -m evaluation_pipelines_tests.judge_endpoint --latency
2``, which prints the address and runs until it is terminated.

It is a plain HTTP server on asyncio: truncated bodies, resets and slow bytes need access to the
socket, and thousands of concurrent slow answers must be cheap.
"""

import argparse
import asyncio
import hashlib
import json
import subprocess
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation_pipelines_tests.judge_batches import BatchRoutes
from evaluation_pipelines_tests.judge_scripts import AnswerDelivery, Scripted, good_reply, turn_of
from evaluation_pipelines_tests.judge_wire import WireRequest, read_request, send

_CHARACTERS_PER_TOKEN = 4
_BLOCK_TOKENS = 128
_SMALLEST_TOKENS = 1024


@dataclass(slots=True)
class Received:
    """A received request and its answer.

    Attributes:
        turn: ``score``, ``reminder`` or ``missing-tools``.
        headers: Headers with lowercase names.
        body: The decoded JSON; ``None`` if the endpoint does not keep bodies.
        raw: The body as bytes.
        session: Hash of the first message of the user, which all turns of a session share.
        prompt: Hash of all messages.
        status: HTTP status of the answer.
        reply: Text of the reply; ``None`` if the answer is not a completion.
        answered: True if a complete answer was sent or is about to be sent.
    """

    turn: str
    headers: dict[str, str]
    body: Any
    raw: bytes
    session: str
    prompt: str
    status: int = 200
    reply: str | None = None
    answered: bool = False


def append_event(path: Path, event: str, received: Received) -> None:
    """Append a line to a journal file; ``event`` is ``asked``, ``answered`` or ``spoiled``."""
    row = {
        "event": event,
        "turn": received.turn,
        "session": received.session,
        "prompt": received.prompt,
        "status": received.status,
    }
    with path.open("a") as handle:
        handle.write(json.dumps(row) + "\n")


class TokenCounter:
    """Counter with 4 characters per token and a cache of prompt prefixes."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def usage(self, messages: list[dict[str, Any]], text: str) -> dict[str, Any]:
        """Return the ``usage`` of a completion; prefixes of earlier prompts count as cached."""
        prompt = "".join(message["content"] for message in messages)
        prompt_tokens, reply_tokens = (
            len(content) // _CHARACTERS_PER_TOKEN or int(bool(content))
            for content in (prompt, text)
        )
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": reply_tokens,
            "total_tokens": prompt_tokens + reply_tokens,
            "prompt_tokens_details": {"cached_tokens": self._cached(prompt)},
        }

    def _cached(self, prompt: str) -> int:
        """Return the tokens of known leading blocks; 0 below the smallest cacheable size."""
        characters, chain, cached, known = _BLOCK_TOKENS * _CHARACTERS_PER_TOKEN, 0, 0, True
        for start in range(0, len(prompt) - characters + 1, characters):
            chain = hash((chain, prompt[start : start + characters]))
            known = known and chain in self._known
            cached += _BLOCK_TOKENS * known
            self._known.add(chain)
        return cached if cached >= _SMALLEST_TOKENS else 0


@dataclass(slots=True)
class JudgeEndpoint:
    """Scripts and received requests of an endpoint.

    Attributes:
        latency_s: Delay of every answer.
        may_answer: Answers are kept back while it is cleared.
        keep_bodies: Whether ``requests`` keeps complete requests, a few hundred kB each.
        journal_path: File that gets a line for each request and each answer.
        base_url: Address of the endpoint.
        requests: Received requests, oldest first.
        max_in_flight: Largest number of concurrent requests.
        in_flight: Current number of requests without an answer.
        batches: Its routes for files and batches.
    """

    latency_s: float = 0
    keep_bodies: bool = True
    journal_path: Path | None = None
    base_url: str = ""
    requests: list[Received] = field(default_factory=list)
    max_in_flight: int = 0
    in_flight: int = 0
    may_answer: threading.Event = field(default_factory=threading.Event)
    _next: deque[Scripted] = field(default_factory=deque)
    _by_turn: dict[str, deque[Scripted]] = field(default_factory=lambda: defaultdict(deque))
    _always: dict[str, Scripted] = field(default_factory=dict)
    _by_model: dict[str, Scripted] = field(default_factory=dict)
    _tokens: TokenCounter = field(default_factory=TokenCounter)
    _arrival: threading.Condition = field(default_factory=threading.Condition)
    batches: BatchRoutes = field(init=False)

    def __post_init__(self) -> None:
        self.may_answer.set()
        self.batches = BatchRoutes(self._complete)

    def script(self, *answers: Scripted) -> None:
        """Use ``answers`` for the next requests of any turn."""
        self._next.extend(answers)

    def script_turn(self, turn: str, *answers: Scripted) -> None:
        """Use ``answers`` for the next requests of one turn."""
        self._by_turn[turn].extend(answers)

    def always(self, answer: Scripted, turn: str = "") -> None:
        """Use ``answer`` for all requests without another script, or for those of one turn."""
        self._always[turn] = answer

    def always_as(self, model: str, answer: Scripted) -> None:
        """Use ``answer`` for all requests to a model without another script."""
        self._by_model[model] = answer

    def turns(self) -> list[str]:
        """Return the turns in the order of their requests."""
        return [request.turn for request in self.requests]

    def wait_for(self, requests: int, timeout_s: float = 30) -> None:
        """Wait until the endpoint has received ``requests`` requests.

        Raises:
            TimeoutError: It did not receive them in time.
        """
        with self._arrival:
            if not self._arrival.wait_for(lambda: len(self.requests) >= requests, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {requests} requests arrived")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends or the endpoint is closed."""
        ends = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with suppress(*ends):
            while request := await read_request(reader):
                self.in_flight += 1
                self.max_in_flight = max(self.max_in_flight, self.in_flight)
                try:
                    stays_open = await self._answer(request, writer)
                finally:
                    self.in_flight -= 1
                if not stays_open:
                    break
        writer.close()

    async def _answer(self, request: WireRequest, writer: asyncio.StreamWriter) -> bool:
        if (of_batches := self.batches.answer(request)) is not None:
            scripted, content = of_batches
            await asyncio.sleep(scripted.delay_s)
            await send(writer, scripted.status, scripted.headers, content, scripted.delivery)
            return scripted.delivery is AnswerDelivery.WHOLE
        if request.method != "POST":
            await send(
                writer, 200, {}, b'{"object":"list","data":[{"id":"scripted","object":"model"}]}'
            )
            return True
        received = self._record(request)
        answer = self._choose(received.turn, request.body["model"])
        body = self._body(answer, received, request)
        await asyncio.sleep(self.latency_s + answer.delay_s)
        if not self.may_answer.is_set():
            await asyncio.to_thread(self.may_answer.wait)
        # Set before the answer is sent: a client that has it must find it recorded.
        received.answered = answer.delivery is AnswerDelivery.WHOLE
        self._journal("answered" if received.answered else "spoiled", received)
        await send(writer, answer.status, answer.headers, body, answer.delivery)
        return received.answered

    def _complete(self, body: dict[str, Any], raw: bytes) -> tuple[int, bytes]:
        """Answer a request of a batch as one that was sent alone."""
        request = WireRequest("POST", "/v1/chat/completions", {}, raw, body)
        received = self._record(request)
        answer = self._choose(received.turn, body["model"])
        content = self._body(answer, received, request)
        received.answered = True
        return answer.status, content

    def _record(self, request: WireRequest) -> Received:
        messages = request.body["messages"]
        received = Received(
            turn=turn_of(messages),
            headers=request.headers,
            body=request.body if self.keep_bodies else None,
            raw=request.raw if self.keep_bodies else b"",
            session=_hash([message for message in messages if message["role"] == "user"][:1]),
            prompt=_hash(messages),
        )
        with self._arrival:
            self.requests.append(received)
            self._arrival.notify_all()
        self._journal("asked", received)
        return received

    def _choose(self, turn: str, model: str) -> Scripted:
        for queue in (self._next, self._by_turn[turn]):
            if queue:
                return queue.popleft()
        general = self._by_model.get(model) or self._always.get("")
        return self._always.get(turn) or general or Scripted()

    def _body(self, answer: Scripted, received: Received, request: WireRequest) -> bytes:
        received.status = answer.status
        if answer.body is not None:
            return answer.body
        messages = request.body["messages"]
        text = good_reply(received.turn, messages) if answer.text is None else answer.text
        received.reply = text
        usage = answer.usage if answer.usage != {} else self._tokens.usage(messages, text)
        message = {"role": "assistant", "content": text, "refusal": None, **answer.message}
        choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
        completion = {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": 0,
            "model": request.body["model"],
            "choices": [choice],
        }
        return json.dumps(completion if usage is None else {**completion, "usage": usage}).encode()

    def _journal(self, event: str, received: Received) -> None:
        if self.journal_path is not None:
            append_event(self.journal_path, event, received)


def _hash(messages: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()


@contextmanager
def open_judge_endpoint(
    latency_s: float = 0, *, keep_bodies: bool = True, journal_path: Path | None = None
) -> Iterator[JudgeEndpoint]:
    """Listen on a free port of 127.0.0.1 in a separate thread."""
    endpoint = JudgeEndpoint(latency_s, keep_bodies, journal_path)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(_start(endpoint, 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield endpoint
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def open_judge_process(latency_s: float = 0, journal_path: Path | None = None) -> Iterator[str]:
    """Open an endpoint in a separate process and yield its address."""
    command = [sys.executable, "-m", "evaluation_pipelines_tests.judge_endpoint"]
    journal = [] if journal_path is None else ["--journal", str(journal_path)]
    with subprocess.Popen(
        [*command, "--latency", str(latency_s), *journal], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _start(endpoint: JudgeEndpoint, port: int) -> asyncio.Server:
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", port)
    endpoint.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    return server


async def _stop(server: asyncio.Server) -> None:
    server.close()
    serving = asyncio.all_tasks() - {asyncio.current_task()}
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving)
    await asyncio.sleep(0)  # closed transports are released in the next iteration of the loop


async def _serve_forever(endpoint: JudgeEndpoint, port: int) -> None:
    server = await _start(endpoint, port)
    sys.stdout.write(f"{endpoint.base_url}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Serve until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0 for a free port")
    parser.add_argument("--latency", type=float, default=0, help="seconds before each answer")
    parser.add_argument("--journal", type=Path, help="file for one JSON line per event")
    chosen = parser.parse_args()
    endpoint = JudgeEndpoint(chosen.latency, keep_bodies=False, journal_path=chosen.journal)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_forever(endpoint, chosen.port))


if __name__ == "__main__":
    main()
