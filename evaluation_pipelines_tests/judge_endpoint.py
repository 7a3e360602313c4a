"""A local OpenAI-compatible endpoint with scripted answers.

In a test: ``with open_judge_endpoint() as judge: judge.script(rate_limited()); ...``. In a separate
process: ``open_judge_process``, or ``python -m evaluation_pipelines_tests.judge_endpoint --latency
2``, which prints the address and runs until it is terminated.

It is a plain HTTP server on asyncio: truncated bodies, resets and slow bytes need access to the
socket, and thousands of concurrent slow answers must be cheap.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from evaluation_pipelines_tests.judge_batches import BatchRoutes
from evaluation_pipelines_tests.judge_scripts import (
    AnswerDelivery,
    Scripted,
    WireRequest,
    good_reply,
    read_request,
    send,
    turn_of,
)

_CHARACTERS_PER_TOKEN = 4


@dataclass(slots=True)
class Received:
    """A received request and its answer.

    Attributes:
        turn: ``score``, ``reminder`` or ``missing-tools``.
        headers: Headers with lowercase names.
        body: The decoded JSON; ``None`` if the endpoint does not keep bodies.
        raw: The body as bytes.
        reply: Text of the reply; ``None`` if the answer is not a completion.
        answered: True if a complete answer was sent or is about to be sent.
    """

    turn: str
    headers: dict[str, str]
    body: Any
    raw: bytes
    reply: str | None = None
    answered: bool = False


def counted_usage(messages: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """Return the ``usage`` of a completion, of 4 characters a token."""
    prompt = "".join(message["content"] for message in messages)
    prompt_tokens, reply_tokens = (
        len(content) // _CHARACTERS_PER_TOKEN or int(bool(content)) for content in (prompt, text)
    )
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": reply_tokens,
        "total_tokens": prompt_tokens + reply_tokens,
    }


@dataclass(slots=True)
class JudgeEndpoint:
    """Scripts and received requests of an endpoint.

    Attributes:
        latency_s: Delay of every answer.
        may_answer: Answers are kept back while it is cleared.
        keep_bodies: Whether ``requests`` keeps complete requests, a few hundred kB each.
        base_url: Address of the endpoint.
        requests: Received requests, oldest first.
        max_in_flight: Largest number of concurrent requests.
        in_flight: Current number of requests without an answer.
        batches: Its routes for files and batches.
    """

    latency_s: float = 0
    keep_bodies: bool = True
    base_url: str = ""
    requests: list[Received] = field(default_factory=list)
    max_in_flight: int = 0
    in_flight: int = 0
    may_answer: threading.Event = field(default_factory=threading.Event)
    _next: deque[Scripted] = field(default_factory=deque)
    _by_turn: dict[str, deque[Scripted]] = field(default_factory=lambda: defaultdict(deque))
    _always: dict[str, Scripted] = field(default_factory=dict)
    _by_model: dict[str, Scripted] = field(default_factory=dict)
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
        )
        with self._arrival:
            self.requests.append(received)
            self._arrival.notify_all()
        return received

    def _choose(self, turn: str, model: str) -> Scripted:
        for queue in (self._next, self._by_turn[turn]):
            if queue:
                return queue.popleft()
        general = self._by_model.get(model) or self._always.get("")
        return self._always.get(turn) or general or Scripted()

    def _body(self, answer: Scripted, received: Received, request: WireRequest) -> bytes:
        if answer.body is not None:
            return answer.body
        messages = request.body["messages"]
        text = good_reply(received.turn, messages) if answer.text is None else answer.text
        received.reply = text
        usage = answer.usage if answer.usage != {} else counted_usage(messages, text)
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


@contextmanager
def open_judge_endpoint(
    latency_s: float = 0, *, keep_bodies: bool = True
) -> Iterator[JudgeEndpoint]:
    """Listen on a free port of 127.0.0.1 in a separate thread."""
    endpoint = JudgeEndpoint(latency_s, keep_bodies)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(_start(endpoint))
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
def open_judge_process(latency_s: float = 0) -> Iterator[str]:
    """Open an endpoint in a separate process and yield its address."""
    command = [sys.executable, "-m", "evaluation_pipelines_tests.judge_endpoint"]
    with subprocess.Popen(
        [*command, "--latency", str(latency_s)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _start(endpoint: JudgeEndpoint) -> asyncio.Server:
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    endpoint.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    return server


async def _stop(server: asyncio.Server) -> None:
    server.close()
    serving = asyncio.all_tasks() - {asyncio.current_task()}
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving)
    await asyncio.sleep(0)  # closed transports are released in the next iteration of the loop


async def _serve_forever(endpoint: JudgeEndpoint) -> None:
    server = await _start(endpoint)
    sys.stdout.write(f"{endpoint.base_url}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Serve until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=0, help="seconds before each answer")
    endpoint = JudgeEndpoint(parser.parse_args().latency, keep_bodies=False)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_forever(endpoint))


if __name__ == "__main__":
    main()
