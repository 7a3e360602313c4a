"""What requests to a model cost: a context that grows, and a cache that forgets."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from evaluation_pipelines_tests.telemetry_generator.team import Model

_FIRST_CONTEXT = 18_000
_COMPACTED_CONTEXT = 14_000
_CACHE_MS = 5 * 60 * 1000
"""A prompt cache forgets what was not asked for in five minutes."""


class Usage(NamedTuple):
    """Tokens, price (nano-dollars) and duration of one request."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    cost_nano: int
    duration_ms: int


@dataclass(slots=True)
class Conversation:
    """What a process has told a model so far, in tokens."""

    model: Model
    random: Random
    tokens: int = 0
    _asked_ms: int = -_CACHE_MS

    def ask(self, time_ms: int) -> Usage:
        """A request with everything said so far and something new."""
        random = self.random.random
        fresh = 200 + int(random() * 2600) if self.tokens else _FIRST_CONTEXT
        output = 40 + int(random() * random() * 1400)
        is_cached = time_ms - self._asked_ms < _CACHE_MS
        read = self.tokens if is_cached else 0
        created = self.tokens - read + fresh
        given = 3 + int(random() * 10)
        self.tokens += fresh + output
        self._asked_ms = time_ms
        model = self.model
        cost_nano = (
            given * model.input_price
            + output * model.output_price
            + read * model.cache_read_price
            + created * model.cache_write_price
        )
        return Usage(given, output, read, created, cost_nano, 700 + output * 11)

    def compact(self) -> tuple[int, int]:
        """Replace what was said by a summary; gives the tokens before and after."""
        before, self.tokens = self.tokens, _COMPACTED_CONTEXT
        return before, _COMPACTED_CONTEXT
