"""One prompt and everything that follows from it."""

from random import Random

from evaluation_pipelines_tests.telemetry_generator.calls import (
    COMMANDS,
    PROMPTS,
    REPLIES,
    Call,
    calls_of,
)
from evaluation_pipelines_tests.telemetry_generator.ids import call_id, request_id, uuid_text
from evaluation_pipelines_tests.telemetry_generator.otlp import text
from evaluation_pipelines_tests.telemetry_generator.team import Masque
from evaluation_pipelines_tests.telemetry_generator.voice import Voice

DENIED = 0.015
"""Probability that the user refuses a tool call."""
LOST = 0.006
"""Probability that the record of a decision gets lost."""
LOOP = 4
"""How often a failing call is made in a failing loop."""

_SHARES_REQUEST = 0.25
_SPEAKS = 0.55
_COMMAND = 0.05
_COMPACT_TOKENS = 80_000
_RESULT_SIZE = "," + text("tool_result_size_bytes", "%d")
_ERROR_TYPE = "," + text("error_type")
_NOT_HOOKED = ("Read",)
_SOURCES = ("config",) * 60 + ("user_temporary",)


class Turns:
    """Takes turns: the user asks, the agent works and answers.

    Args:
        random: Where chance comes from.
        voice: Tells what happens.
        scale: Multiplies the tool calls of a prompt.
    """

    def __init__(self, random: Random, voice: Voice, scale: float) -> None:
        self._random = random
        self._voice = voice
        self._scale = scale
        self._request_id = self._call_id = ""

    def ask(self) -> None:
        """The user types a prompt, now and then after a slash command."""
        random, voice = self._random, self._voice
        if random.random() < _COMMAND:
            self._command()
        voice.prompt_id = uuid_text(random)
        prompt = random.choice(PROMPTS)
        shown = prompt if voice.process.developer.team.logs_texts else "<REDACTED>"
        voice.tell(voice.records.user_prompt, len(prompt), shown, uuid_text(random))
        voice.account.window.prompts += 1
        self._hook("UserPromptSubmit", "UserPromptSubmit")

    def work(self, masque: Masque, elapsed: float) -> None:
        """The agent makes tool calls, as many and as well as model and masque make it."""
        random, model = self._random.random, self._voice.conversation.model
        # From 0.4 to 1.6 times what is usual, rounded by chance: the mean is exactly that.
        usual = masque.calls_per_prompt(model, elapsed) * self._scale
        failure, calls = masque.failure(model, elapsed), calls_of(masque)
        for number in range(int(usual * (0.4 + 1.2 * random()) + random())):
            call = calls[int(random() * len(calls))]
            is_allowed = random() >= DENIED
            self._decide(call, is_allowed=is_allowed, is_first=not number)
            if is_allowed:
                self._finish(call, fails=random() < failure)
            else:
                self._voice.account.window.tools_denied += 1

    def loop(self, masque: Masque) -> None:
        """The agent makes one failing call again and again."""
        call = self._random.choice(calls_of(masque))
        for _ in range(LOOP):
            self._decide(call)
            self._finish(call, fails=True)

    def answer(self) -> None:
        """The agent says what it did."""
        self._request_id = request_id(self._random)
        self._request(speaks=True)

    def die(self, masque: Masque) -> None:
        """The program dies in a tool call: it was allowed, and nothing more is heard of it."""
        self._decide(self._random.choice(calls_of(masque)))
        self._voice.account.window.tools_unknown += 1

    def fail(self) -> None:
        """The API cannot be reached, however often it is tried."""
        voice, model = self._voice, self._voice.conversation.model.name
        voice.now_ms += 95_000
        voice.tell(voice.records.api_error, model, 12, request_id(self._random))
        voice.tell(voice.records.api_retries_exhausted, model, 94_000)
        voice.account.window.api_errors += 1
        voice.account.window.ends_in_error = True

    def _decide(self, call: Call, *, is_allowed: bool = True, is_first: bool = True) -> None:
        """The model requests a call, alone or with others, and it is allowed or refused."""
        random, voice = self._random, self._voice
        is_alone = is_first or random.random() >= _SHARES_REQUEST
        if is_alone:
            self._request_id = request_id(random)
        self._call_id = call_id(random)
        if is_allowed and not is_first and random.random() < LOST:
            voice.lose()
        else:
            accepted = ("accept", random.choice(_SOURCES))
            voice.tell(
                voice.records.tool_decision,
                *(accepted if is_allowed else ("reject", "user_reject")),
                *(call.tool, self._call_id, self._request_id),
            )
        if is_alone:
            self._request(speaks=random.random() < _SPEAKS)

    def _finish(self, call: Call, *, fails: bool) -> None:
        """A call comes back."""
        random, voice = self._random.random, self._voice
        team, window = voice.process.developer.team, voice.account.window
        if call.tool not in _NOT_HOOKED:
            self._hook("PreToolUse", f"PreToolUse:{call.tool}")
        duration_ms = call.shortest_ms + int(random() * (call.longest_ms - call.shortest_ms))
        voice.now_ms += duration_ms
        if fails:
            window.tools_failed += 1
            more = (call.error_details if team.logs_details else "") + _ERROR_TYPE % call.error_type
        else:
            window.tools_ok += 1
            more = (call.details if team.logs_details else "") + _RESULT_SIZE % int(random() * 9000)
        success = "false" if fails else "true"
        voice.tell(
            voice.records.tool_result,
            *(call.tool, self._call_id, success, duration_ms, call.input_bytes, more),
        )
        if call.tool == "Task":
            model = voice.conversation.model.name
            voice.tell(voice.records.subagent_completed, 21_500, 6, model)

    def _request(self, *, speaks: bool, source: str = "repl_main_thread") -> None:
        """The model answers, with or without words."""
        voice = self._voice
        usage, model = voice.conversation.ask(voice.now_ms), voice.conversation.model.name
        voice.now_ms += usage.duration_ms
        window = voice.account.window
        window.api_requests += 1
        window.ends_in_error = False
        window.input_tokens += usage.input_tokens
        window.output_tokens_by_model[model] += usage.output_tokens
        window.cache_read_tokens += usage.cache_read_tokens
        window.cache_creation_tokens += usage.cache_creation_tokens
        window.cost_nano += usage.cost_nano
        voice.tell(
            voice.records.api_request,
            *(source, model, *usage[:4], usage.cost_nano / 1e9, round(usage.cost_nano / 1000)),
            *(usage.duration_ms, 600, self._request_id),
        )
        if speaks and voice.process.developer.team.is_modern:
            self._speak(model)
        if voice.conversation.tokens > _COMPACT_TOKENS * max(self._scale, 1):
            self._compact("auto")

    def _speak(self, model: str) -> None:
        random, voice = self._random, self._voice
        reply = random.choice(REPLIES)
        shown = reply if voice.process.developer.team.logs_texts else "<REDACTED>"
        voice.tell(
            voice.records.assistant_response,
            *(len(reply), shown, self._request_id, uuid_text(random), model),
        )

    def _hook(self, event: str, name: str) -> None:
        voice = self._voice
        if voice.process.developer.team.has_hooks:
            voice.tell(voice.records.hook_start, event, name)
            duration_ms = 20 + int(self._random.random() * 180)
            voice.now_ms += duration_ms
            voice.tell(voice.records.hook_complete, event, name, duration_ms)

    def _command(self) -> None:
        """A slash command of the program: no prompt to the model."""
        random, voice = self._random, self._voice
        voice.prompt_id = uuid_text(random)
        name = "compact" if voice.conversation.tokens else random.choice(COMMANDS)
        voice.tell(voice.records.command, name, uuid_text(random))
        voice.now_ms += 900
        if name == "compact":
            self._compact("manual")

    def _compact(self, trigger: str) -> None:
        """The conversation is replaced by a summary, which the model writes."""
        voice = self._voice
        before, after = voice.conversation.compact()
        self._request_id = request_id(self._random)
        self._request(speaks=False, source="compact")
        voice.tell(voice.records.compaction, trigger, 9000, before, after)
