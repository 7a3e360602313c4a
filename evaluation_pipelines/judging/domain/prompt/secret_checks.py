"""Checks of values that a pattern found: is it a secret, or a placeholder, a name or code?"""

import base64
import itertools
import re
from collections.abc import Callable

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
    return len({"letter" if each.isalpha() else each.isdigit() for each in inner}) > 1


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
    is_alike = len({len(each) for each in groups[:-1]}) == 1 and len(groups[-1]) <= len(groups[0])
    is_text = not _PROSE.isdisjoint(each.lower() for each in groups)
    has_digits = sum(any(map(str.isdigit, each)) for each in groups) >= len(groups) / 2
    is_letters_alone = len(groups) >= _MIN_LETTER_GROUPS and "".join(groups).isalpha()
    return is_alike and not is_text and (has_digits or is_letters_alone)


def is_bytes(value: str) -> bool:
    """Return whether numbers are bytes of a key: in no order, and hardly any of them twice."""
    numbers = [int(each, 0) for each in re.findall(r"0x[0-9a-f]+|[0-9]+", _plain_bytes(value))]
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
    kinds = [("digit" if each.isdigit() else each.isupper()) for each in drawn if each.isalnum()]
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
    digits = [int(each) for each in value if each.isdigit()]
    doubled = [each * 2 - 9 * (each > 4) for each in digits[-2::-2]]
    return len({*digits}) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def is_iban(value: str) -> bool:
    """Return whether the check digits of an IBAN fit: the number modulo 97 is 1."""
    plain = "".join(value.split())
    digits = "".join(str(int(each, 36)) for each in plain[4:] + plain[:4])
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
