"""The voice of a session: it numbers, times and sends what is told, and keeps the account."""

from random import Random

from evaluation_pipelines_tests.telemetry_generator.exporter import Exporter, Request
from evaluation_pipelines_tests.telemetry_generator.otlp import iso_time
from evaluation_pipelines_tests.telemetry_generator.records import Conversation, Process, Records
from evaluation_pipelines_tests.telemetry_generator.team import Model
from evaluation_pipelines_tests.telemetry_generator.truth import Account

_STARTUP_MS = 1500


class Voice:
    """Tells the events of one session, process by process.

    Attributes:
        now_ms: The time in the session (milliseconds since 1970).
        prompt_id: The prompt that is being answered.
        account: What really happened.
        requests: What was sent.
    """

    def __init__(self, random: Random, process: Process, model: Model, start_ms: int) -> None:
        self.now_ms = start_ms
        self.prompt_id = ""
        self.account = Account()
        self.requests: list[Request] = []
        self._random = random
        self.enter(process, model)

    def enter(self, process: Process, model: Model) -> None:
        """A new process: it counts from 0, and its model knows of nothing."""
        self.process = process
        self.records = Records.of(process)
        self.conversation = Conversation(model, self._random)
        self._exporter = Exporter(self.records)
        self._sequence = 0

    def start(self) -> None:
        """What a process tells before the first prompt."""
        self._send(self.records.hook_registered)
        self._send(self.records.plugin_loaded)
        if self._random.random() < 0.5:
            self._send(self.records.mcp_server_connection, 180)
        self.now_ms += _STARTUP_MS

    def end(self) -> None:
        """The process ends and sends what it still has."""
        self._exporter.flush()
        self.requests += self._exporter.requests

    def tell(self, record: str, *details: object) -> None:
        """Tell an event that belongs to the prompt."""
        self._send(record, self.prompt_id, *details)

    def lose(self) -> None:
        """An event gets lost on the way: only its number is missed."""
        self._sequence += 1
        self.account.window.missing_events += 1

    def _send(self, record: str, *details: object) -> None:
        now_ms = self.now_ms
        self.account.happen(now_ms)
        told = record % (now_ms, iso_time(now_ms), self._sequence, *details, now_ms)
        self._exporter.add(now_ms, told)
        self._sequence += 1
