"""Sanitize text from telemetry: hidden characters, terminal codes, secrets and model names.

Hidden characters can carry instructions to a model that no reader of the transcript notices.
Colors and cursor movements mean nothing to a judge. Control tokens of chat formats, such as
``<|im_end|>``, must not reach a server that interprets them. Texts that look like orders to the
judge are marked.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation_pipelines.judging.domain.prompt.characters import (
    LATIN_LOOK_ALIKES,
    LINE_END,
    CategoryFilter,
)
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted
from evaluation_pipelines.judging.domain.prompt.truncate import cut_middle

_SCORE_LINE = r"""
    ^[^\w\n]{0,20}(?:logical_flow|consistency|tool_relevance|synthesis_quality)[^\w\n]{0,6}\d{1,3}\b
    ^[^\w\n]{0,20}[a-z]{2,20}_[a-z_]{2,30}[^\w\n]{0,6}:[^\w\n]{0,6}\d{1,2}\s?/\s?(?:10|20|25|30|40|50|100)\b
    ^[^\w\n]{0,20}failure[ _]tags[^\w\n]{0,4}:
    ^[^\w\n]{0,20}(?:(?:final|total|overall|my)\s){0,2}(?:score|grade|rating|verdict|total)[^\w\n]{0,4}(?::|=|is)[^\w\n]{0,6}\d{1,3}\b
"""

_ORDERS = r"""
    \b(?:ignore|disregard|forget|override|overrule|bypass)\W{1,3}(?:\w{1,20}\W{1,3}){0,4}?(?:previous|prior|above|earlier|preceding|all|any|your|the|every)\W{1,3}(?:\w{1,20}\W{1,3}){0,3}?(?:instructions?|rubrics?|criteria|prompts?|guidelines|system\smessage)\b
    \b(?:dear|attention|hello|hey|hi|note\sto|message\sto|memo\sto|instructions?\sfor|instructions?\sto)\W{1,3}(?:the\W{1,3})?(?:\w{1,12}\W{1,3})?(?:judge|grader|evaluator|assessor|scorer|reviewer)s?\b
    \byou\sare\s(?:now\s)?(?:the\s|a\s|an\s)?(?:\w{1,20}\s){0,2}?(?:judge|grader|evaluator|scorer)\b
    \bas\s(?:the|an?|your)\s(?:\w{1,20}\s){0,2}?(?:judge|grader|evaluator)\b
    \b(?:judge|grader|evaluator)s?\W{1,3}(?:\w{1,20}\W{1,3}){0,3}?(?:must|should|shall|please)\b
    \b(?:award|assign|give|grant|output|return|write|answer|respond|reply|print|rate|score)\b\W{1,3}(?:\w{1,20}\W{1,3}){0,7}?(?:full\s(?:marks|points)|maximum\s(?:score|points|marks)|perfect\s(?:score|marks)|(?:highest|top|best)\s(?:possible\s)?(?:score|marks|rating)|100\spoints|25/25|100/100|9\d/100|score\sof\s(?:9\d|100))
    \b(?:new|updated|revised|real|actual|true)\s(?:rubric|scoring\s(?:rules|criteria)|grading\s(?:rules|criteria)|system\sprompt|system\smessage)\b
    ^[^\w\n]{0,20}(?:begin|end|start|close)(?:\sof)?(?:\sthe)?\s(?:session|transcript|conversation|material|evidence|untrusted\s\w{1,20}|judgement|rubric)\b[^\w\n]{0,20}\w{0,128}[^\w\n]{0,20}$
    <<<\s?(?:end\sof\s)?(?:material|session|transcript)
    \bsession_conversation\b|\boutput_schema\b|\balert_data\b
"""

_CHAT_ORDERS = r"""
    <[|\uff5c]\s?[a-z_]{2,30}\s?[|\uff5c]>
    \[\s?/?inst\s?\]|<\s?<\s?/?sys\s?>\s?>|<\s?(?:start|end)_of_turn\s?>
"""

_OTHER_LANGUAGES = r"""
    \bignorier\w{0,5}\W{1,3}(?:\w{1,20}\W{1,3}){0,5}?(?:anweisung|instruktion|bewertungs|kriteri|vorgabe)
    \b(?:volle|h\xf6chste|maximale)\s(?:punkt|bewertung|note)
    \bignor(?:e|ez|er)\W{1,3}(?:\w{1,20}\W{1,3}){0,5}?(?:instruct|consigne|crit\xe8re|bar\xe8me)
    \b(?:note|score)\smaximale?\b
    \bignor(?:a|e|en|ar)\W{1,3}(?:\w{1,20}\W{1,3}){0,5}?(?:instruc|istruzion|criterios|criteri|r\xfabrica)
    \b(?:puntuaci\xf3n|pontua\xe7\xe3o|nota|punteggio|calificaci\xf3n)\s(?:m\xe1xima|massimo|massima|perfecta)
    (?:\u0438\u0433\u043d\u043e\u0440\u0438\u0440|\u0437\u0430\u0431\u0443\u0434)\w{0,6}\W{1,3}(?:\w{1,20}\W{1,3}){0,5}?(?:\u0438\u043d\u0441\u0442\u0440\u0443\u043a\u0446|\u043a\u0440\u0438\u0442\u0435\u0440|\u0443\u043a\u0430\u0437\u0430\u043d)
    \u043c\u0430\u043a\u0441\u0438\u043c\u0430\u043b\u044c\u043d\w{1,3}\s(?:\u0431\u0430\u043b|\u043e\u0446\u0435\u043d\u043a)
    (?:\u5ffd\u7565|\u65e0\u89c6|\u7121\u8996|\u5ffd\u8996|\u4e0d\u8981\u7406\u4f1a)[^\n]{0,12}(?:\u6307\u4ee4|\u6307\u793a|\u8bf4\u660e|\u89c4\u5219|\u8bc4\u5206|\u6a19\u6e96|\u6807\u51c6|\u63d0\u793a)
    (?:\u6307\u793a|\u547d\u4ee4|\u57fa\u6e96|\u30eb\u30fc\u30d6\u30ea\u30c3\u30af)[^\n]{0,8}\u7121\u8996
    \u6ee1\u5206|\u6eff\u5206|\u6e80\u70b9
"""


def _any_of(*lists: str) -> re.Pattern[str]:
    patterns = [line.strip() for text in lists for line in text.splitlines() if line.strip()]
    return re.compile("|".join(f"(?:{each})" for each in patterns), re.MULTILINE)


_SIGNS = _any_of(_SCORE_LINE, _ORDERS, _CHAT_ORDERS, _OTHER_LANGUAGES)

# The tag block repeats ASCII as invisible characters; only hidden text needs it.
_HIDDEN_ASCII = re.compile("[\U000e0020-\U000e007f]{4}")

# Combining marks and invisible characters.
_WITHOUT_MARKS = CategoryFilter(("Mn", "Me", "Cf"))


def is_injection_suspected(text: str) -> bool:
    """Return whether ``text`` addresses a judge or imitates a verdict.

    Case, width, combining marks, invisible characters and look-alikes of Latin letters are ignored.
    """
    if text.isascii():
        return _SIGNS.search(text.lower()) is not None
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_WITHOUT_MARKS)
    latin = folded.translate(LATIN_LOOK_ALIKES)
    return bool(
        _HIDDEN_ASCII.search(text)
        or _SIGNS.search(folded)
        or (latin != folded and _SIGNS.search(latin))
    )


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
    line = " ".join(plain_text(text).split())
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


@dataclass(slots=True)
class TextSanitizer:
    """Sanitizer of the texts of one session; it records what it found.

    Args:
        redactor: Removes secrets from a text.
        models: Names of the models of the session, which are hidden from the judge.
        max_length: Characters; longer texts lose their middle before any other step.

    Attributes:
        redactions: Number of secrets removed, by kind.
        has_cut: Whether a text exceeded ``max_length``.
        has_suspicious: Whether a text has signs of injection.
    """

    redactor: Callable[[str], Redacted]
    models: Iterable[str]
    max_length: int
    redactions: Counter[str] = field(default_factory=Counter)
    has_cut: bool = False
    has_suspicious: bool = False
    _model_names: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        names = sorted(filter(_MODEL_NAME.fullmatch, self.models), key=len, reverse=True)
        if names:
            self._model_names = re.compile("|".join(map(re.escape, names)), re.IGNORECASE)

    def text(self, logged: str) -> str:
        """Sanitize a text of several lines."""
        return self._clean(self._shortened(logged))

    def line(self, logged: str) -> str:
        """Sanitize a name or title and return it on one line."""
        return plain_line(self._clean(logged[:1000]))

    def parameters(self, logged: str) -> str:
        """Sanitize the parameters of a call and return one line for each.

        Text that is not a complete JSON object is returned in its own form.
        """
        # A name next to its value identifies a secret best; the lines are redacted again below.
        safe = self._redacted(plain_text(self._shortened(logged)))
        try:
            parameters = json.loads(safe)
        except (ValueError, RecursionError):
            parameters = None
        if not isinstance(parameters, dict):
            return self._clean(safe)
        # Signs at the beginning of a line are found only in the bare strings.
        self._check_for_injection("\n".join(_strings(parameters)))
        return self._clean(_parameter_lines(parameters))

    def _clean(self, text: str) -> str:
        self._check_for_injection(text)
        safe = self._redacted(plain_text(text).strip("\n") or "(empty)")
        return self._model_names.sub("[model]", safe) if self._model_names else safe

    def _check_for_injection(self, text: str) -> None:
        self.has_suspicious = self.has_suspicious or is_injection_suspected(text)

    def _redacted(self, text: str) -> str:
        redacted = self.redactor(text)
        self.redactions.update(redacted.counts)
        return redacted.text

    def _shortened(self, text: str) -> str:
        if len(text) <= self.max_length:
            return text
        self.has_cut = True
        return cut_middle(text, self.max_length)


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
