"""Generated secrets of valid form in the texts in which agents show them.

``data/secrets`` lists the kinds. The secrets are drawn here from a seed, so that no file contains
anything like a secret.
"""

import base64
import json
import random
import re
import string
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "secrets"
GROUPS = ("first", "more")

ALNUM = string.ascii_letters + string.digits
BASE64 = ALNUM + "+/"
_CLASSES = {
    "A": ALNUM,
    "B": BASE64,
    "C": string.ascii_uppercase + string.digits,
    "D": string.digits,
    "H": "0123456789abcdef",
    "T": string.ascii_uppercase + "234567",
    "U": ALNUM + "_-",
    "X": "0123456789ABCDEF",
    "l": string.ascii_lowercase + string.digits,
    "p": ALNUM + "!@#$%^&*(-_=+)",
    "t": string.ascii_lowercase + "234567",
}
_FIELD = re.compile(r"\{([ABCDHTUXlpt])(\d+)\}|\{(S)(\d+)\}|\{(pem):([^}]+)\}|\{(\w+)\}")
_SEED_WORDS = (
    "abandon bridge canyon dolphin ensure fabric galaxy hamster island jungle kidney lemon marble "
    "noodle orbit pencil quantum rabbit salmon timber upgrade velvet walnut zebra acoustic bamboo"
).split()
_WORDS = "sommer hunter dragon kestrel otter harbor maple copper winter falcon meadow".split()


@dataclass(frozen=True, slots=True)
class Planted:
    """A text that contains one secret.

    Attributes:
        group: ``first`` or ``more``, the list of the kind.
        kind: Kind of the secret.
        secret: The secret.
        text: Text that contains the secret.
    """

    group: str
    kind: str
    secret: str
    text: str


def _jwt(rng: random.Random) -> str:
    head = {"alg": "HS256", "typ": "JWT"}
    body = {"sub": str(rng.randrange(10**9)), "exp": rng.randrange(10**9)}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in (head, body)
    ]
    return ".".join([*parts, "".join(rng.choices(_CLASSES["U"], k=43))])


def _pem(label: str, rng: random.Random) -> str:
    lines = ["".join(rng.choices(BASE64, k=64)) for _ in range(rng.randint(4, 26))]
    body = "\n".join([*lines, "".join(rng.choices(BASE64, k=rng.randint(10, 60))) + "=="])
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"


def _password(rng: random.Random) -> str:
    word = rng.choice(["Sommer", "hunter", "dragon", "Kestrel", "blue-otter", "Tr0ub4dor"])
    return f"{word}{rng.choice('!#+_.-')}{rng.randrange(10, 99999)}"


def _letters(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(8, 14)))


def _phrase(rng: random.Random) -> str:
    """Return words of a passphrase with a digit, and some with capitals and signs."""
    words = [*rng.sample(_WORDS, 3), str(rng.randrange(10, 99))]
    rng.shuffle(words)
    words[0] = rng.choice([str.lower, str.title, str.upper])(words[0])
    return rng.choice([" ", " ", " & ", ", ", "! "]).join(words)


def _escaped(rng: random.Random) -> str:
    """Return a password with a quote in it, as JSON and code escape it."""
    return f'{rng.choice(_WORDS)}\\"{_letters(rng)} {_password(rng)}'


_MAKERS: dict[str, Callable[[random.Random], str]] = {
    "jwt": _jwt,
    "uuid": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
    "W": _password,
    "w": _letters,
    "P": lambda rng: " ".join(rng.sample(_WORDS, 4)),
    "phrase": _phrase,
    "Title": lambda rng: " ".join(rng.sample(_WORDS, 4)).title(),
    "escaped": _escaped,
    "at": lambda rng: f"{_password(rng)}@{_letters(rng)}",
    "b64w": lambda rng: base64.b64encode(_letters(rng).encode() + b"42").decode(),
}


def expand(template: str, rng: random.Random) -> str:
    """Return ``template`` with its fields, such as ``{A36}``, replaced by drawn text."""

    def drawn(found: re.Match[str]) -> str:
        letters, length, _, words, _, label, maker = found.groups()
        if letters:
            return "".join(rng.choices(_CLASSES[letters], k=int(length)))
        if words:
            return " ".join(rng.sample(_SEED_WORDS, int(words)))
        return _pem(label, rng) if label else _MAKERS[maker](rng)

    return _FIELD.sub(drawn, template)


@cache
def kinds_of(group: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return secret template and texts of every kind of a group."""
    lines = (DATA / f"{group}.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" ¦ ") for line in lines if not line.startswith("#")]
    return {kind: (secret, tuple(texts)) for kind, secret, *texts in rows}


def planted(seed: int, each: int) -> Iterator[Planted]:
    """Yield ``each`` secrets of every kind, in the texts of their kind in turn."""
    rng = random.Random(seed)  # noqa: S311 - the corpus must be reproducible
    for group in GROUPS:
        for kind, (template, texts) in kinds_of(group).items():
            for number in range(each):
                secret = expand(template, rng)
                yield Planted(group, kind, secret, _text(texts[number % len(texts)], secret))


def _text(template: str, secret: str) -> str:
    if template.startswith(('"', "{")):  # JSON keeps its escapes
        return template.replace("§", secret.replace("\n", "\\n"))
    return template.replace("\\n", "\n").replace("\\t", "\t").replace("§", secret)
