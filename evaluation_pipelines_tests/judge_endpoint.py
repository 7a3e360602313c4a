"""A judge on this machine: an OpenAI-compatible endpoint whose answers are scripted.

In a test: ``with open_judge_endpoint() as judge: judge.script(rate_limited()); ...``. In a process
of its own: ``open_judge_process``, or by hand ``python -m evaluation_pipelines_tests.judge_endpoint
--port 8000 --latency 2``, which prints the address and runs until it is ended.

It is a bare HTTP server on asyncio: half a body, a reset and dripping bytes need the socket itself,
and thousands of slow answers at once must cost nothing.
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

from evaluation_pipelines_tests.judge_journal import Received, append_event
from evaluation_pipelines_tests.judge_scripts import Line, Scripted, good_reply, turn_of
from evaluation_pipelines_tests.judge_tokens import TokenCounter
from evaluation_pipelines_tests.judge_wire import WireRequest, read_request, send


@dataclass(slots=True)
class JudgeEndpoint:
    """What was asked and what will be answered.

    Attributes:
        latency_s: Of every answer.
        keep_bodies: Whether the journal holds requests whole: a few hundred kB each.
        journal_path: File that gets a line for each request and each answer.
        requests: The journal, oldest first.
        most_at_once: The largest number of requests under way at the same time.
    """

    latency_s: float = 0
    keep_bodies: bool = True
    journal_path: Path | None = None
    base_url: str = ""
    requests: list[Received] = field(default_factory=list)
    most_at_once: int = 0
    _next: deque[Scripted] = field(default_factory=deque)
    _by_turn: dict[str, deque[Scripted]] = field(default_factory=lambda: defaultdict(deque))
    _always: dict[str, Scripted] = field(default_factory=dict)
    _tokens: TokenCounter = field(default_factory=TokenCounter)
    _at_once: int = 0
    _arrival: threading.Condition = field(default_factory=threading.Condition)

    def script(self, *answers: Scripted) -> None:
        """Answer the next requests so, whatever they ask; then as before."""
        self._next.extend(answers)

    def script_turn(self, turn: str, *answers: Scripted) -> None:
        """Answer the next requests of one turn so."""
        self._by_turn[turn].extend(answers)

    def always(self, answer: Scripted, turn: str = "") -> None:
        """Answer every request that no other script is for so, or those of one turn."""
        self._always[turn] = answer

    def turns(self) -> list[str]:
        """Turns in the order they were asked."""
        return [each.turn for each in self.requests]

    def wait_for(self, requests: int, timeout_s: float = 30) -> None:
        """Wait until that many requests have come.

        Raises:
            TimeoutError: they did not come.
        """
        with self._arrival:
            if not self._arrival.wait_for(lambda: len(self.requests) >= requests, timeout_s):
                raise TimeoutError(f"{len(self.requests)} of {requests} requests came")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, until it ends or the endpoint is closed."""
        ends = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with suppress(*ends):
            while request := await read_request(reader):
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                try:
                    goes_on = await self._answer(request, writer)
                finally:
                    self._at_once -= 1
                if not goes_on:
                    break
        writer.close()

    async def _answer(self, request: WireRequest, writer: asyncio.StreamWriter) -> bool:
        if request.method != "POST":
            await send(
                writer, 200, {}, b'{"object":"list","data":[{"id":"scripted","object":"model"}]}'
            )
            return True
        received = self._note(request)
        answer = self._choose(received.turn)
        body = self._body(answer, received, request)
        await asyncio.sleep(self.latency_s + answer.delay_s)
        # Before it is sent: who has the answer must find it said so.
        received.answered = answer.line is Line.WHOLE
        self._journal("answered" if received.answered else "spoiled", received)
        await send(writer, answer.status, answer.headers, body, answer.line)
        return received.answered

    def _note(self, request: WireRequest) -> Received:
        messages = request.body["messages"]
        received = Received(
            turn=turn_of(messages),
            headers=request.headers,
            body=request.body if self.keep_bodies else None,
            raw=request.raw if self.keep_bodies else b"",
            session=_hash(messages[:1]),
            prompt=_hash(messages),
        )
        with self._arrival:
            self.requests.append(received)
            self._arrival.notify_all()
        self._journal("asked", received)
        return received

    def _choose(self, turn: str) -> Scripted:
        for queue in (self._next, self._by_turn[turn]):
            if queue:
                return queue.popleft()
        return self._always.get(turn) or self._always.get("") or Scripted()

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
    """Listen on a free port of 127.0.0.1, in a thread of its own."""
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
    """The same in a process of its own; gives its address."""
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
    await asyncio.sleep(0)  # what they closed is let go in the next round of the loop


async def _serve_forever(endpoint: JudgeEndpoint, port: int) -> None:
    server = await _start(endpoint, port)
    sys.stdout.write(f"{endpoint.base_url}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0 is a free one")
    parser.add_argument("--latency", type=float, default=0, help="seconds before each answer")
    parser.add_argument("--journal", type=Path, help="file for a line of JSON a request and answer")
    chosen = parser.parse_args()
    endpoint = JudgeEndpoint(chosen.latency, keep_bodies=False, journal_path=chosen.journal)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_forever(endpoint, chosen.port))


if __name__ == "__main__":
    main()
