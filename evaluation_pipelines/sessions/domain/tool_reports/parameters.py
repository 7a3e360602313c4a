"""What a tool call asks for, so that the same thing asked again is found.

Parameters are compared by kind: paths, addresses, numbers, patterns and contents by their
normalized value, commands by their words, and free text (questions, instructions) by its words,
of which those that name something (``cart.py``, ``#41``) have to be the same.
"""

import re
from collections.abc import Iterator
from posixpath import normpath
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

VOLATILE = frozenset(
    "description timeout timeout_ms yield_time_ms max_output_tokens explanation instruction"
    " justification".split()
)
"""Parameters that do not affect what a call asks for, if it has others: these may differ then."""
DIGEST = frozenset(("bash_command", "mcp_server_name", "mcp_tool_name"))
"""Names that a source adds to identify the tool; they are not parameters."""
COMMANDS = ("command", "cmd", "full_command", "script")
FREE_TEXT = frozenset(
    "query q prompt question questions message body text comment title topic task objective goal"
    " fact thought element step reason".split()
)
"""Parameters whose words are compared, and not their value."""
_PATTERNS = frozenset(("pattern", "regex", "regexp", "glob"))
"""Parameters in which a slash is a character as any other."""
_SQL = re.compile(
    r"\s*(?:select|with|insert|update|delete|explain)\b.*\b(?:from|into|set|as)\b",
    re.IGNORECASE | re.DOTALL,
)
"""A query that is no free text: each of its words matters, and their order."""
MAX_COMPARED_CHARACTERS = 1000
"""Length of the compared part of a text: one half from its beginning, one half from its end."""
MAX_COMPARED_WORDS = 200
"""The same of a free text, in words."""

_UNSAID: tuple[Any, ...] = (None, False, "", [], {})
"""Values that are taken as not given; 0 is one (it equals False): the start of a file."""
_NOISE = re.compile(
    r"^\s*#.*\n|\\\n|\btimeout\s+[\d.]+[smh]?(?=\s)|(?<=\s)2>\s*(?:&1|/dev/null)", re.MULTILINE
)
"""What does not affect the answer of a command: comments, time limits, its error stream."""
_TOKEN = re.compile(r"""(?:[^\s'"\\;|&]|\\.|'[^']*'|"(?:\\.|[^"\\])*"|['"\\])+|[;|&\n]+""")
_FLAGS = re.compile(r"-[A-Za-z]{2,}")
_ADDRESS = re.compile(r"(\w+://)([^/?#]*)([^?#]*)(\?[^#]*)?")
_PLAIN_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")
_FILLERS = frozenset(
    "a all an any are as at be can could do does each every for how i in is it its me my of on"
    " our please show tell that the there these this those us we what when where which with"
    " would you your".split()
)
_DIRECTIONS = frozenset(("from", "into", "to"))
"""With one of these words their order matters: csv to json is not json to csv."""


class Question(NamedTuple):
    """What a call asks for.

    Attributes:
        values: What has to be the same, by name.
        texts: Each free text, one character per word, so that texts are compared word by word.
        is_cut: A free text is longer than what is compared of it.
    """

    values: tuple[tuple[str, Any], ...]
    texts: tuple[str, ...] = ()
    is_cut: bool = False


def question(logged: str) -> Question | None:
    """Return what a call asks for by its parameters; ``None`` if only a digest was logged.

    Logged text that is not a JSON object is the single parameter ``""``.
    """
    decoded = _decoded(logged)
    if not isinstance(decoded, dict):
        decoded = {"": decoded}
    named = {name: value for name, value in decoded.items() if name not in DIGEST}
    if decoded and not named:
        return None
    values: list[tuple[str, Any]] = []
    texts: list[str] = []
    is_cut = False
    try:
        leaves = sorted(_leaves("", "", named, VOLATILE)) or sorted(_leaves("", "", named))
    except RecursionError:
        leaves = [("", "", logged)]
    for path, name, value in leaves:
        words = value.split() if name in FREE_TEXT else []
        if len(words) > 1 and _SQL.match(value):
            values.append((path, tuple(words)))
        elif len(words) > 1:
            names, text = _free_text(words)
            is_cut |= len(text) > MAX_COMPARED_WORDS
            half = MAX_COMPARED_WORDS // 2
            texts.append(text if len(text) <= 2 * half else text[:half] + text[-half:])
            values.append((path, names))
        else:
            values.append((path, _value(name, value)))
    return Question(tuple(values), tuple(texts), is_cut)


def _value(name: str, value: str) -> str | tuple[str, ...]:
    if name in COMMANDS:
        return command_words(value)
    return value.strip() if name in _PATTERNS else _normal(value)


def shell_command(logged: str) -> str:
    """Return the shell command in the parameters of a call, or their text if they are none."""
    decoded = _decoded(logged)
    if isinstance(decoded, dict):
        decoded = next((decoded[name] for name in COMMANDS if name in decoded), "")
    return _command_text(decoded)


def command_words(command: str) -> tuple[str, ...]:
    """Return the words of a shell command, without quotes, the options of each part sorted.

    A word after a long option is taken for its value.
    """
    words: list[str] = []
    options: list[str] = []
    is_value = False
    for token in _TOKEN.findall(_NOISE.sub(" ", command.strip())):
        if token[0] in ";|&\n":
            words += [*sorted(options), token.strip() or ";"]
            options, is_value = [], False
            continue
        word = token.replace("'", "").replace('"', "")
        if word[:1] != "-" and is_value:
            options[-1] += f" {_normal(word)}"
        elif word[:1] != "-":
            words.append(_normal(word))
        elif _FLAGS.fullmatch(word):
            options += (f"-{letter}" for letter in word[1:])
        else:
            options.append(word)
        is_value = word[:2] == "--" and "=" not in word
    return (*words, *sorted(options))


def truncate(text: str) -> str:
    """Return the part of a text that is compared."""
    half = MAX_COMPARED_CHARACTERS // 2
    return text if len(text) <= MAX_COMPARED_CHARACTERS else text[:half] + text[-half:]


def texts_in(logged: str) -> list[str]:
    """Return all texts in the parameters of a call, at any depth, in their order."""
    decoded = _decoded(logged)
    if isinstance(decoded, dict):
        decoded = {name: decoded[name] for name in decoded if name not in VOLATILE | DIGEST}
    return list(_texts(decoded))


def _decoded(logged: str) -> Any:
    try:
        return msgspec.json.decode(logged)
    except (msgspec.DecodeError, RecursionError):
        return logged


def _command_text(value: Any) -> str:
    if isinstance(value, list):  # ["bash", "-lc", "the command"]
        wrapped = "-lc" in value or "-c" in value
        value = value[-1] if wrapped else " ".join(map(str, value))
    return value if isinstance(value, str) else ""


def _leaves(
    path: str, name: str, value: Any, ignored: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str, str]]:
    """Yield path, name and text of each value at any depth that says something."""
    if value in _UNSAID or name in ignored:
        return
    if name in COMMANDS and isinstance(value, list):
        value = _command_text(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", key, inner, ignored)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(f"{path}.{number}", name, inner, ignored)
    elif isinstance(value, str):
        yield path, name, value
    else:
        is_whole = isinstance(value, float) and value.is_integer()
        yield path, name, str(int(value) if is_whole else value)


def _normal(text: str) -> str:
    """Return a text as it is compared: paths and addresses without what does not matter."""
    text = text.strip()
    if "/" not in text or " " in text:
        return text
    address = _ADDRESS.match(text)
    if address is None:
        return normpath(text)
    scheme, host, path, query = address.groups("")
    return f"{scheme}{host.lower()}{path.rstrip('/')}{query}"


def _free_text(words: list[str]) -> tuple[tuple[str, ...], str]:
    """Return the words of a text that name something, and the others as one character each."""
    names, plain = [], []
    for raw in words:
        word = raw.lstrip("(").rstrip(".,:;!?()")
        if not _PLAIN_WORD.fullmatch(word) or _INNER_CAPITAL.search(word):
            names.append(_normal(word))
        else:
            plain.append(word.lower())
    content = [word.removesuffix("s") for word in plain if word not in _FILLERS]
    ordered = content if _DIRECTIONS.intersection(content) else sorted(content)
    # All 2 ** 20 characters above the basic plane: two words hardly ever share one.
    return tuple(sorted(filter(None, names))), "".join(map(_character, ordered))


def _character(word: str) -> str:
    return chr(0x10000 + crc32(word.encode("utf-8", "surrogatepass")) % 2**20)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
