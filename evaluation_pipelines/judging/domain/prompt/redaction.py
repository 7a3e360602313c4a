r"""Redaction of secrets and personal data, by the rows of ``secrets.toml``.

Each secret is replaced by ``[redacted:<kind>]``. Checks of the matched values keep placeholders,
and code that only handles secrets, as they are. Only the number of secrets by kind is recorded,
never a value.

JSON stays JSON: an escape such as ``\n`` is never cut, and a number outside of quotes is replaced
by a string.
"""

import base64
import itertools
import json
import re
import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_PLACEHOLDERS = frozenset(
    """
    none null nil true false undefined string str bytes int number bool boolean any object optional
    required empty missing invalid unknown default example changeme change-me redacted hidden
    removed masked password passwd passphrase secret token apikey api_key api-key key value your
    placeholder test dummy here todo text email username user login type field input label name
    prompt literal incorrect wrong expired correct encrypted hashed plain plaintext basic bearer
    read write include omit same-origin disabled enabled self super await async return function
    varchar integer unset never always inherit unsafe present absent provided stdin environ
    """.split()
)

# A variable, a template, a call, a mask, an empty value or a path
_STAND_IN = re.compile(
    r"[$<{%&]|\{\{|[*x.•#_-]+\Z|\[|os\.|env[.\[]|process\.|self\.|args\.|!\w|[A-Z]:\\",
    re.IGNORECASE,
)
_PATH = re.compile(r"[.~]{0,2}/")
_NAME = re.compile(r"[A-Za-z_][A-Za-z_.:-]*\Z")
_CALL = re.compile(r"[A-Za-z_.]+[(\[]")
_SECRET_WORD = re.compile(
    r"passw|passphrase|secret|token|credential|key|your|example|param", re.IGNORECASE
)
_CAMEL_CASE = re.compile(r"[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)+\Z|[A-Z][a-z]{2,15}\Z")
_PREFIX = re.compile(r"\A(?:[a-z]{1,12}[_-]){1,4}")
_PROSE = frozenset(
    "the a an is are to of for and or in on at your my this that with not no be must if".split()
)
_MIN_RANDOM_LENGTH = 16
_TEMPLATE = re.compile(r"[{<]\w|[{<]{2}|\{\}|%[sdr(]|\$[{(A-Z]")
_LABEL = frozenset(
    """
    least minimum maximum than more chars characters digits letters length enter forgot forgotten
    choose confirm reset invalid failed failure error does did has have was were can cannot will
    should it you we please only from by as
    """.split()
)
_MIN_WORDS = 3
_MIN_PHRASE_LENGTH = 4
_MIN_LETTER_GROUPS = 4
_LARGEST_BYTE = 255


def is_secret_value(value: str) -> bool:
    """Return whether the value of a named secret can be real, not a placeholder or code."""
    if value.lower().strip(".!?:") in _PLACEHOLDERS or _STAND_IN.match(value):
        return False
    if _PATH.match(value) and not is_random(value):
        return False
    # `token=args.token`, `password: "your-password"`, `"password": "is missing"`
    is_name = _NAME.match(value) and _SECRET_WORD.search(value)
    return not is_name and " " not in value.strip() and not _CALL.match(value)


def is_key_like(value: str) -> bool:
    """Return whether a bare word can be a secret.

    In code it is more often a name; it must therefore contain a digit, but not only digits.
    """
    return is_secret_value(value) and any(map(str.isdigit, value)) and not value.isdigit()


def is_letters(value: str) -> bool:
    """Return whether letters alone, without quotes, can be a password and not a name of code."""
    return is_secret_value(value) and not _CAMEL_CASE.match(value) and "_" not in value


def is_passphrase(value: str) -> bool:
    """Return whether quoted words can be a passphrase, and not a sentence or a label.

    Words of lower-case letters alone are more often prose, so they are looked at more strictly than
    words with capitals, digits or signs. Two words are enough if one of them mixes these.
    """
    words = value.split()
    is_code = _STAND_IN.match(value) or _TEMPLATE.search(value) or _PATH.match(value)
    if len(words) < 2 or is_code:
        return False
    plain = {word.strip("\\\"'.,:;!?()").lower() for word in words}
    if all(word.isalpha() and word.islower() for word in words):
        is_prose = not _PROSE.isdisjoint(plain) or _SECRET_WORD.search(value)
        return len(words) >= _MIN_WORDS and not is_prose
    has_digit = any(map(str.isdigit, value))
    if not has_digit and (_SECRET_WORD.search(value) or len(_PLACEHOLDERS & plain) > 1):
        return False
    return (
        plain.isdisjoint((_PROSE - {"my"}) | _LABEL)
        and sum(map(str.isalnum, value)) >= _MIN_PHRASE_LENGTH
        and (len(words) >= _MIN_WORDS or any(map(_is_mixed, words)))
    )


def _is_mixed(word: str) -> bool:
    inner = word.strip(".,:;!?")
    return (
        len({"letter" if character.isalpha() else character.isdigit() for character in inner}) > 1
    )


def is_argument(value: str) -> bool:
    """Return whether the argument of an option for passwords can be real; it may have blanks."""
    if " " not in value:
        return is_secret_value(value)
    is_help = _SECRET_WORD.search(value) and not any(map(str.isdigit, value))
    return not (is_help or _STAND_IN.match(value) or _TEMPLATE.search(value))


def is_seed_phrase(value: str) -> bool:
    """Return whether words can be the seed of a wallet: as many as these have, and no sentence."""
    words = value.split()
    return len(words) in (12, 15, 18, 21, 24) and _PROSE.isdisjoint(words)


def is_groups(value: str) -> bool:
    """Return whether words with blanks are one token in groups, such as ``abcd efgh ijkl mnop``."""
    groups = value.split()
    is_alike = len({len(group) for group in groups[:-1]}) == 1 and len(groups[-1]) <= len(groups[0])
    is_text = not _PROSE.isdisjoint(group.lower() for group in groups)
    has_digits = sum(any(map(str.isdigit, group)) for group in groups) >= len(groups) / 2
    is_letters_alone = len(groups) >= _MIN_LETTER_GROUPS and "".join(groups).isalpha()
    return is_alike and not is_text and (has_digits or is_letters_alone)


def is_bytes(value: str) -> bool:
    """Return whether numbers are bytes of a key: in no order, and hardly any of them twice."""
    numbers = [int(number, 0) for number in re.findall(r"0x[0-9a-f]+|[0-9]+", _plain_bytes(value))]
    return (
        max(numbers) <= _LARGEST_BYTE
        and len({*numbers}) >= 0.6 * len(numbers)
        and numbers not in (sorted(numbers), sorted(numbers, reverse=True))
    )


def _plain_bytes(value: str) -> str:
    """Return numbers without types, and without leading zeros of decimal ones."""
    return re.sub(r"\b0+(?=\d)", "", value.lower().replace("u8", ""))


def is_random(value: str) -> bool:
    """Return whether a long word is random: it often changes between capitals, letters and digits.

    In random letters and digits 62 % of adjacent pairs are of different kinds, in names made of
    words about 30 %. Lower-case prefixes, which services put before their tokens, are ignored.
    """
    drawn = _PREFIX.sub("", value)
    kinds = [
        ("digit" if character.isdigit() else character.isupper())
        for character in drawn
        if character.isalnum()
    ]
    changes = sum(one != other for one, other in itertools.pairwise(kinds))
    fewest = min(kinds.count("digit"), kinds.count(True), kinds.count(False))
    return fewest >= 2 and changes >= 0.45 * len(kinds) and len(kinds) >= _MIN_RANDOM_LENGTH


def is_encoded_text(value: str) -> bool:
    """Return whether a value is base64, as the values of a Kubernetes secret are."""
    try:
        decoded = base64.b64decode(value, validate=True)
    except ValueError:
        return False
    has_text = decoded.decode("utf-8", "replace").isprintable()
    return has_text or (len(value) >= 24 and is_key_like(value))


def is_payment_card(value: str) -> bool:
    """Return whether digits are the number of a payment card: its issuer and Luhn check fit."""
    digits = [int(character) for character in value if character.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return len({*digits}) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def is_iban(value: str) -> bool:
    """Return whether the check digits of an IBAN fit: the number modulo 97 is 1."""
    plain = "".join(value.split())
    digits = "".join(str(int(character, 36)) for character in plain[4:] + plain[:4])
    return int(digits) % 97 == 1


def is_phone(value: str) -> bool:
    """Return whether a number with a country code is as long as those of telephones are."""
    is_decimal = value.count(".") == 1 and value.replace(".", "").lstrip("+").isdigit()
    return 8 <= sum(map(str.isdigit, value)) <= 15 and not is_decimal


def is_address(value: str) -> bool:
    """Return whether groups with colons are an IPv6 address, and not a time or a scope of code."""
    return any(map(str.isdigit, value)) and len(value) > len("::1")


def is_user(value: str) -> bool:
    """Return whether a folder below the home folders belongs to a person."""
    return value.lower() not in {"shared", "public", "default", "user", "runner", "node", "app"}


CHECKS: dict[str, Callable[[str], bool]] = {
    "any": bool,
    "value": is_secret_value,
    "key_like": is_key_like,
    "letters": is_letters,
    "passphrase": is_passphrase,
    "words": lambda value: is_passphrase(value.replace("-", " ")),
    "argument": is_argument,
    "seed": is_seed_phrase,
    "groups": is_groups,
    "bytes": is_bytes,
    "random": is_random,
    "encoded": is_encoded_text,
    "card": is_payment_card,
    "iban": is_iban,
    "phone": is_phone,
    "address": is_address,
    "user": is_user,
}
"""Checks by the name that the tables of patterns use."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without secrets, and the number of removed secrets by kind."""

    text: str
    counts: dict[str, int]


class SecretPattern(NamedTuple):
    """A row of ``secrets.toml``, which describes its columns."""

    kind: str
    hints: str
    check: str
    pattern: str
    example: str
    near_miss: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """A compiled row."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[str], bool]
    group: str | int


_FLAGS = {
    "forms": re.NOFLAG,
    "places": re.IGNORECASE | re.MULTILINE,
    "surroundings": re.IGNORECASE | re.MULTILINE,
    "words": re.IGNORECASE,
    "personal": re.MULTILINE,
    "numbers": re.NOFLAG,
}
"""Flags of the patterns of each table."""

_PART = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")


def secret_rows() -> dict[str, list[SecretPattern]]:
    """Read all rows by table, with their parts in place."""
    path = files("evaluation_pipelines.judging.domain.prompt").joinpath("secrets.toml")
    document = tomllib.loads(path.read_text("utf-8"))
    parts = document.pop("parts")

    def whole(text: str) -> str:
        return _PART.sub(lambda found: whole(parts[found[1]]), text)

    return {
        table: [
            SecretPattern(kind, whole(hints), check, whole(pattern), example, near_miss)
            for kind, hints, check, pattern, example, near_miss in rows
        ]
        for table, rows in document.items()
    }


def compiled(rows: Mapping[str, Sequence[SecretPattern]]) -> dict[str, list[_Rule]]:
    """Compile rows by table; a table may be missing."""
    return {
        table: [_rule(row, flags | re.ASCII) for row in rows.get(table, ())]
        for table, flags in _FLAGS.items()
    }


def _rule(row: SecretPattern, flags: re.RegexFlag) -> _Rule:
    pattern = re.compile(row.pattern, flags)
    group = "secret" if "secret" in pattern.groupindex else 0
    return _Rule(row.kind, tuple(row.hints.split(",")), pattern, CHECKS[row.check], group)


@cache
def tables() -> dict[str, list[_Rule]]:
    """Return all rules; read when the first text is redacted: most processes never do."""
    return compiled(secret_rows())


def personal_kinds() -> tuple[str, ...]:
    """Return the kinds of personal data."""
    rules = (*tables()["personal"], *tables()["numbers"])
    return tuple(dict.fromkeys(rule.kind for rule in rules))


_LONG_WORD = re.compile(r"[^\s\"'`,;(){}\[\]<>|\\]{14,}")
_NUMBER = re.compile(r"(?<![\w.])[+(]?\d[\d .()/-]{6,}")
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

# A word also begins after an escape of JSON, and after an encoded character of a URL.
_ESCAPE_BEFORE = re.compile(r"(?:\\[nrtbf]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2})\Z")
_LONGEST_ESCAPE = 6

# Characters before the end of a private key in which its beginning is searched.
_MAX_KEY_LENGTH = 16_000
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_REVERSED_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]*")
_HEADLESS = _Rule("private-key", (), re.compile(rf"[A-Za-z0-9+/=\s\\]*{_KEY_END.pattern}"), bool, 0)


def redact(text: str, *, personal: Collection[str], seal: str = "") -> Redacted:
    """Replace each secret by ``[redacted:<kind>]``.

    Args:
        text: Any text.
        personal: Kinds of personal data that are replaced too, of ``personal_kinds``.
        seal: Added to each mark before its bracket; tells marks from a text that imitates them.
    """
    marks = _Marks(text, seal)
    for rule, found in _matches(text, personal):
        marks.add(rule, *found.span(rule.group))
    return marks.applied()


def _matches(text: str, personal: Collection[str]) -> Iterator[tuple[_Rule, re.Match[str]]]:
    """Yield all matches, those of specific rules first."""
    rules = tables()
    lower = text.lower()
    if len(lower) != len(text):  # a few capitals become two characters
        lower = text.translate(_ASCII_LOWER)
    yield from _form_matches(text, lower)
    for rule in rules["places"]:
        for hint in rule.hints:
            if hint in lower:  # it rarely is
                yield from _matches_at(rule, text, _positions(lower, hint))
    yield from _headless_keys(text)
    for rule in rules["surroundings"]:
        if any(hint in lower for hint in rule.hints):
            yield from ((rule, found) for found in rule.pattern.finditer(text))
    for rule in (
        *rules["words"],
        *(rule for rule in rules["personal"] if rule.kind in personal),
    ):
        yield from ((rule, found) for found in rule.pattern.finditer(text))
    if numbers := [number for number in rules["numbers"] if number.kind in personal]:
        positions = [found.start() for found in _NUMBER.finditer(text)]
        for rule in numbers:
            yield from _matches_at(rule, text, positions)


def _form_matches(text: str, lower: str) -> Iterator[tuple[_Rule, re.Match[str]]]:
    long_words = "\n".join(_LONG_WORD.findall(lower))
    if not long_words:
        return
    for rule in tables()["forms"]:
        if any(hint in long_words for hint in rule.hints):
            matches = rule.pattern.finditer(text)
            yield from ((rule, found) for found in matches if _begins_word(text, found.start()))


def _headless_keys(text: str) -> Iterator[tuple[_Rule, re.Match[str]]]:
    """Yield private keys whose beginning was truncated."""
    done = 0
    for end in _KEY_END.finditer(text):
        start = max(done, end.start() - _MAX_KEY_LENGTH)
        body = _REVERSED_KEY_BODY.match(text[start : end.start()][::-1])
        begin = end.start() - (len(body[0]) if body else 0)
        if whole := _HEADLESS.pattern.match(text, begin):
            yield _HEADLESS, whole
        done = end.end()


def _positions(text: str, hint: str) -> Iterator[int]:
    position = text.find(hint)
    while position >= 0:
        yield position
        position = text.find(hint, position + 1)


def _matches_at(
    rule: _Rule, text: str, positions: Iterable[int]
) -> Iterator[tuple[_Rule, re.Match[str]]]:
    for position in positions:
        if found := rule.pattern.match(text, position):
            yield rule, found


@dataclass(slots=True)
class _Marks:
    """Places of a text that marks replace; the first mark at a place stays.

    Marks that the text has already stay too; their kind is ``None``.
    """

    text: str
    seal: str
    _starts: list[int] = field(default_factory=list)
    _spans: list[tuple[int, int, str | None]] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for found in _any_mark(self.seal).finditer(self.text):
            self._put(*found.span(), None)

    def add(self, rule: _Rule, start: int, end: int) -> None:
        """Add a mark if the value there is accepted and no other mark overlaps it."""
        start, end = _without_cut_escapes(self.text, start, end)
        if self.is_free(start, end) and rule.accepts(self.text[start:end]):
            self._put(start, end, rule.kind)
            self._counts[rule.kind] += 1

    def is_free(self, start: int, end: int) -> bool:
        """Return whether a span has characters and overlaps no other mark."""
        index = bisect(self._starts, start)
        ends_before = index == 0 or self._spans[index - 1][1] <= start
        begins_after = index == len(self._starts) or self._starts[index] >= end
        return start < end and ends_before and begins_after

    def _put(self, start: int, end: int, kind: str | None) -> None:
        index = bisect(self._starts, start)
        self._starts.insert(index, start)
        self._spans.insert(index, (start, end, kind))

    def applied(self) -> Redacted:
        """Return the text with the marks."""
        parts: list[str] = []
        done = 0
        for start, end, kind in self._spans:
            if kind is None:
                continue
            quote = _bare_value_quote(self.text, start, end)
            parts += self.text[done:start], quote, f"[redacted:{kind}{self.seal}]", quote
            done = end
        text = "".join(parts) + self.text[done:]
        if parts and self.text.lstrip().startswith(("{", "[")):
            text = _with_quoted_marks(self.text, text, self.seal)
        return Redacted(text, dict(sorted(self._counts.items())))


@cache
def _any_mark(seal: str) -> re.Pattern[str]:
    return re.compile(rf"\[redacted:[\w-]{{1,30}}{re.escape(seal)}\]")


def _begins_word(text: str, start: int) -> bool:
    if not start or not text[start - 1].isalnum():
        return True
    return bool(_ESCAPE_BEFORE.search(text[max(0, start - _LONGEST_ESCAPE) : start]))


def _without_cut_escapes(text: str, start: int, end: int) -> tuple[int, int]:
    r"""Shrink a span whose ends would cut an escape such as ``\n``."""
    if start and text[start - 1] == "\\" and start < end and text[start] in "nrtbfu\"'/\\":
        start += 5 if re.match(r"u[0-9a-fA-F]{4}", text[start:end]) else 1
    backslashes = len(text[start:end]) - len(text[start:end].rstrip("\\"))
    return start, end - backslashes % 2


_NAME_BEFORE = re.compile(r"(\\{0,7}\")\s{0,4}:\s{0,4}\Z")
_VALUE_END = re.compile(r"\s{0,9}(?:[,}\]]|\\{1,7}n|\Z)")


def _bare_value_quote(text: str, start: int, end: int) -> str:
    """Return the quotes that a mark needs in place of a number of JSON, as in ``"pin": 12``."""
    name = _NAME_BEFORE.search(text[max(0, start - 16) : start])
    return name[1] if name and _VALUE_END.match(text, end) else ""


def _with_quoted_marks(before: str, text: str, seal: str) -> str:
    """Return ``text`` with quotes around its marks outside of strings, if it was JSON before."""
    try:
        json.loads(before)
    except (ValueError, RecursionError):
        return text
    pattern = re.compile(rf'"(?:[^"\\]|\\.)*+"|({_any_mark(seal).pattern})')
    return pattern.sub(lambda found: f'"{found[1]}"' if found[1] else found[0], text)
