"""What a secret looks like, to tell it from a placeholder or from code that handles secrets."""

import itertools
import re

_PLACEHOLDERS = frozenset(
    """
    none null nil true false undefined string str bytes int number bool boolean any object optional
    required empty missing invalid unknown default example changeme change-me redacted hidden
    removed masked password passwd passphrase secret token apikey api_key api-key key value your
    placeholder test dummy here todo
    """.split()
)

# A variable, a template, a call, a mask or a blank instead of a value.
_STAND_IN = re.compile(
    r"[$<{%]|\{\{|[*x.•#_-]+\Z|\[|os\.|env[.\[]|process\.|self\.|args\.", re.IGNORECASE
)
_PREFIX = re.compile(r"\A(?:[a-z]{1,12}[_-]){1,4}")
_SHORTEST_RANDOM = 16
_NAME = re.compile(r"[A-Za-z_][A-Za-z_.:-]*\Z")
_SECRET_WORD = re.compile(
    r"passw|passphrase|secret|token|credential|key|your|example", re.IGNORECASE
)


def is_secret_value(value: str) -> bool:
    """Whether what stands where a secret is named can be one."""
    if value.lower().strip(".!?") in _PLACEHOLDERS or _STAND_IN.match(value):
        return False
    # `token=args.token`, `password: "your-password"`, `"password": "is missing"`
    return not (_NAME.match(value) and _SECRET_WORD.search(value)) and " " not in value.strip()


def is_key_like(value: str) -> bool:
    """The same for a bare word, which in code is more often a name: it needs a digit."""
    return is_secret_value(value) and any(map(str.isdigit, value)) and not value.isdigit()


def is_random(value: str) -> bool:
    """Whether a long word is drawn at random: capitals, small letters and digits in wild order.

    Of two neighbours in random letters and digits 62 of 100 are of different kinds, in a name made
    of words about 30. What a service puts before its tokens in small letters is left aside.
    """
    drawn = _PREFIX.sub("", value)
    kinds = [("digit" if each.isdigit() else each.isupper()) for each in drawn if each.isalnum()]
    changes = sum(one != other for one, other in itertools.pairwise(kinds))
    fewest = min(kinds.count("digit"), kinds.count(True), kinds.count(False))
    return fewest >= 2 and changes >= 0.45 * len(kinds) and len(kinds) >= _SHORTEST_RANDOM
