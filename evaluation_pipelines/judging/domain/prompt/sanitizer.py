"""Sanitize text from telemetry: hidden characters, terminal codes, secrets and model names.

Hidden characters can carry instructions to a model that no reader of the transcript notices.
Colors and cursor movements mean nothing to a judge. Control tokens of chat formats, such as
``<|im_end|>``, must not reach a server that interprets them. Texts that look like orders to the
judge are recorded.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from evaluation_pipelines.judging.domain.prompt.fence import (
    LINE_END,
    SEAL,
    CategoryFilter,
    InjectionDetector,
    unsealed,
)
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted, redact

# CSI sequences such as colors; then OSC sequences (window titles), to their end or the end of line.
_TERMINAL = re.compile(r"\x1b\[[0-9;:?]*[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?")

_CHAT_FORMAT = re.compile(
    # <|im_start|> <|eot_id|>, also with the full-width bars of some models
    r"<[|\uff5c](?=[^<>\n]{0,40}[|\uff5c]>)"
    r"|<(?=/?s>)|<(?=</?SYS>>)|<(?=(?:start|end)_of_turn>)|\[(?=/?INST\])"
)

_WITHOUT_HIDDEN = CategoryFilter(("Cc", "Cf", "Cs", "Co", "Cn"), keep="\n\t")

# Short names and names without a digit are words that also occur in ordinary text.
_MODEL_NAME = re.compile(r"(?=.*\d)[\w.:/@-]{5,100}")


def plain_text(text: str) -> str:
    r"""Return ``text`` without terminal codes, hidden characters and chat control tokens.

    Line ends become ``\n``. Control tokens stay readable: a space breaks them.
    """
    text = LINE_END.sub("\n", _TERMINAL.sub("", text)).translate(_WITHOUT_HIDDEN)
    return _CHAT_FORMAT.sub(lambda found: f"{found[0]} ", text)


def plain_line(text: str, max_length: int = 100) -> str:
    """Return the plain text on one line of at most ``max_length`` characters."""
    return _one_line(plain_text(text), max_length)


def _one_line(text: str, max_length: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


# A cut moves at most this many characters to reach a space.
_MAX_SHIFT = 400


def cut_note(missing: int) -> str:
    """Return the line in place of ``missing`` characters."""
    return f"\n[... {missing} characters left out here ...{SEAL}]\n"


def ends_of(text: str, max_length: int) -> tuple[str, str]:
    """Return beginning and end of a text longer than ``max_length``, cut at spaces."""
    half = max_length // 2
    start, end = text[:half], text[len(text) - (max_length - half) :]
    start = start[: _last_space(start)]
    end = end[len(end) - _last_space(end[::-1]) :]
    return start, end


def _last_space(text: str) -> int:
    """Return the position of the last space; the length if it is far from the end."""
    nearest = max(0, len(text) - _MAX_SHIFT)
    for position in range(len(text) - 1, nearest - 1, -1):
        if text[position].isspace():
            return position
    return len(text)


@dataclass(slots=True)
class TextSanitizer:
    """Sanitizer of the texts of one session; it records what it found.

    Args:
        redactor: Removes secrets from a text.
        models: Names of the models of the session, which are hidden from the judge.
        max_length: Characters; longer texts lose their middle before any other step.
        finds_injection: Whether signs of injection are searched for.

    Attributes:
        redactions: Number of secrets removed, by kind.
        has_cut: Whether a text exceeded ``max_length``.
    """

    redactor: Callable[[str], Redacted]
    models: Iterable[str]
    max_length: int
    finds_injection: bool = True
    redactions: Counter[str] = field(default_factory=Counter)
    has_cut: bool = False
    _model_names: re.Pattern[str] | None = None
    _detector: InjectionDetector = field(default_factory=InjectionDetector)

    def __post_init__(self) -> None:
        names = sorted(filter(_MODEL_NAME.fullmatch, self.models), key=len, reverse=True)
        if names:
            self._model_names = re.compile("|".join(map(re.escape, names)), re.IGNORECASE)

    @property
    def has_suspicious(self) -> bool:
        """Whether a text has signs of injection, if they are searched for."""
        return self._detector.has_found

    def text(self, logged: str, label: str = "") -> str:
        """Sanitize a text of several lines; ``label`` is the kind of the text."""
        plain = self._plain(logged)
        self._detect(plain, label, logged[: self.max_length])
        return self._redacted(plain.strip("\n") or f"(empty{SEAL})")

    def line(self, logged: str) -> str:
        """Sanitize a name or title and return it on one line."""
        return _one_line(self.text(logged[:1000], "title"))

    def parameters(self, logged: str) -> str:
        """Sanitize the parameters of a call and return one line for each.

        Text that is not a complete JSON object is returned in its own form.
        """
        try:
            document = json.loads(logged) if len(logged) <= self.max_length else None
            plain = _plain_document(document) if isinstance(document, dict) else None
        except (ValueError, RecursionError):
            plain = None
        if plain is None:
            return self.text(logged, "parameters")
        # Signs at the beginning of a line are found only in the bare strings.
        bare, as_logged = ("\n".join(_strings(side)) for side in (plain, document))
        self._detect(bare, "parameters", as_logged)
        # A name next to its value identifies a secret best; the lines are redacted again.
        safe = json.loads(self._without_secrets(json.dumps(plain, ensure_ascii=False)))
        return self._redacted(_parameter_lines(safe) or f"(empty{SEAL})")

    def _detect(self, plain: str, label: str, logged: str) -> None:
        if self.finds_injection:
            self._detector.read(plain, label, logged=logged)

    def _redacted(self, plain: str) -> str:
        safe = self._without_secrets(plain)
        return self._model_names.sub(f"[model{SEAL}]", safe) if self._model_names else safe

    def _without_secrets(self, plain: str) -> str:
        redacted = self.redactor(plain)
        self.redactions.update(redacted.counts)
        return redacted.text

    def _plain(self, text: str) -> str:
        if len(text) <= self.max_length:
            return plain_text(text)
        self.has_cut = True
        start, end = ends_of(text, self.max_length)
        note = cut_note(len(text) - len(start) - len(end))
        return f"{plain_text(start)}{note}{plain_text(end)}"


def _plain_document(document: Any) -> Any:
    """Return a JSON value with plain text in place of every string and name."""
    if isinstance(document, str):
        return plain_text(document)
    if isinstance(document, dict):
        return {plain_text(name): _plain_document(value) for name, value in document.items()}
    return [_plain_document(item) for item in document] if isinstance(document, list) else document


def _parameter_lines(parameters: Mapping[str, Any]) -> str:
    lines = []
    for name, value in parameters.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\n" in text:
            indented = "\n".join(f"  {line}" for line in text.split("\n"))
            lines.append(f"{name}:\n{indented}")
        else:
            lines.append(f"{name}: {text}")
    return "\n".join(lines)


def _strings(document: Any) -> list[str]:
    """Return all strings in a JSON value of any depth."""
    found: list[str] = []
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return found


_MAX_TEXT_LENGTH = 20_000
"""Characters of one text; a longer one loses its middle, and says so."""


@dataclass(frozen=True, slots=True)
class ShownTexts:
    """Makes texts of sessions fit to be shown; HTML is not escaped."""

    sanitizer: TextSanitizer

    def text(self, logged: str) -> str:
        """Return a text of several lines."""
        return unsealed(self.sanitizer.text(logged))

    def line(self, logged: str) -> str:
        """Return a name or title on one line."""
        return unsealed(self.sanitizer.line(logged))

    def parameters(self, logged: str) -> str:
        """Return the parameters of a call, a line for each."""
        return unsealed(self.sanitizer.parameters(logged))


def shown_texts(personal: Collection[str]) -> ShownTexts:
    """Return what makes texts fit to be shown; ``personal`` as for ``redact``."""
    redactor = partial(redact, personal=personal)
    return ShownTexts(TextSanitizer(redactor, (), _MAX_TEXT_LENGTH, finds_injection=False))
