"""Redaction of secrets, by rules for their form, their context and their randomness.

Each secret is replaced by ``[redacted:<kind>]``. Checks of the matched values keep placeholders,
and code that only handles secrets, as they are. Only the number of secrets by kind is recorded,
never a value.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without secrets, and the number of removed secrets by kind."""

    text: str
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class SecretRule:
    """Rule for one kind of secret.

    Attributes:
        kind: Name of the kind, which replaces the secret.
        hints: The pattern is searched only if one of these is in the lower-case text.
        pattern: Pattern of the secret; with a group ``secret`` only that group is replaced.
        accepts: Check of the text that would be replaced.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[str], bool]


_PLACEHOLDERS = frozenset(
    """
    none null nil true false undefined string str bytes int number bool boolean any object optional
    required empty missing invalid unknown default example changeme change-me redacted hidden
    removed masked password passwd passphrase secret token apikey api_key api-key key value your
    placeholder test dummy here todo
    """.split()
)

# A variable, a template, a call, a mask or an empty value
_STAND_IN = re.compile(
    r"[$<{%]|\{\{|[*x.•#_-]+\Z|\[|os\.|env[.\[]|process\.|self\.|args\.", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z_.:-]*\Z")
_SECRET_WORD = re.compile(
    r"passw|passphrase|secret|token|credential|key|your|example", re.IGNORECASE
)
_PREFIX = re.compile(r"\A(?:[a-z]{1,12}[_-]){1,4}")
_MIN_RANDOM_LENGTH = 16


def is_secret_value(value: str) -> bool:
    """Return whether the value of a named secret can be real, not a placeholder or code."""
    if value.lower().strip(".!?") in _PLACEHOLDERS or _STAND_IN.match(value):
        return False
    # `token=args.token`, `password: "your-password"`, `"password": "is missing"`
    return not (_NAME.match(value) and _SECRET_WORD.search(value)) and " " not in value.strip()


def is_key_like(value: str) -> bool:
    """Return whether a bare word can be a secret.

    In code it is more often a name; it must therefore contain a digit, but not only digits.
    """
    return is_secret_value(value) and any(map(str.isdigit, value)) and not value.isdigit()


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


def _rule(
    kind: str, hints: str, *pattern: str, accepts: Callable[[str], bool] = bool, flags: int = 0
) -> SecretRule:
    compiled = re.compile("".join(pattern), flags | re.ASCII)
    return SecretRule(kind, tuple(hints.split()) or ("",), compiled, accepts)


_START = r"(?<![A-Za-z0-9])"
_NAME_HINTS = "pass pwd secret token credential key connection"
_NAMES = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|token|credentials?"
    r"|(?:api|access|auth|account|private|signing|encryption|master|shared)[_-]?key"
    r"|connection[_-]?string)"
)
# End of a quoted name: "name", name['x'], or \"name\" as in JSON within JSON
_AFTER_NAME = r"[\"'`\]\\]{0,6}"

# Secrets with a recognizable form
_BY_FORM = (
    _rule(
        "private-key",
        "private",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
        r"(?:(?:\s|\\n|\\r)*[A-Za-z-]{1,20}: [^\n\\]{0,120}){0,5}",
        # The last line is missing if the text was truncated.
        r"[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    _rule("anthropic-key", "sk-ant-", _START, r"sk-ant-[\w-]{16,}"),
    _rule("openai-key", "sk-", _START, r"sk-(?:proj|svcacct|admin|None)-[\w-]{16,}"),
    _rule("openai-key", "sk-", _START, r"sk-[\w-]{20,}", accepts=is_key_like),
    _rule("aws-key", "akia asia", r"(?<![A-Z0-9])A(?:KI|SI)A[A-Z2-7]{16}(?![A-Z0-9])"),
    _rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _START, r"gh[pousr]_[A-Za-z0-9]{30,}"),
    _rule("github-token", "github_pat_", _START, r"github_pat_\w{22,}"),
    _rule(
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- gloas-",
        _START,
        r"gl(?:pat|dt|rt|cbt|ptt|oas)-[\w-]{16,}",
    ),
    _rule("slack-token", "xox", _START, r"xox[a-z]-[A-Za-z0-9-]{10,}"),
    _rule("slack-token", "xapp-", _START, r"xapp-[A-Za-z0-9-]{20,}"),
    _rule("slack-webhook", "hooks.slack", r"hooks\.slack\.com/[a-z]{1,20}/(?P<secret>[\w/]{20,})"),
    _rule("google-key", "aiza", _START, r"AIza[\w-]{35}"),
    _rule("google-key", "gocspx-", _START, r"GOCSPX-[\w-]{20,}"),
    _rule("google-token", "ya29.", _START, r"ya29\.[\w-]{20,}"),
    _rule("stripe-key", "_live_ _test_", _START, r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _rule("stripe-key", "whsec_", _START, r"whsec_[A-Za-z0-9+/=]{20,}"),
    _rule("npm-token", "npm_", _START, r"npm_[A-Za-z0-9]{36}"),
    _rule("pypi-token", "pypi-ageichlwas5vcmc", _START, r"pypi-AgEIcHlwaS5vcmc[\w-]{20,}"),
    _rule("huggingface-token", "hf_", _START, r"hf_[A-Za-z0-9]{30,}"),
    _rule("sendgrid-key", "sg.", _START, r"SG\.[\w-]{16,32}\.[\w-]{16,}"),
    _rule("digitalocean-token", "_v1_", _START, r"do[por]_v1_[a-f0-9]{64}"),
    _rule("databricks-token", "dapi", _START, r"dapi[a-f0-9]{32}"),
    _rule("vault-token", "hvs. hvb. hvr.", _START, r"hv[sbr]\.[\w-]{20,}"),
    _rule("age-key", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _rule("telegram-token", ":aa", _START, r"[0-9]{8,10}:AA[\w-]{33}"),
    _rule("jwt", "eyj", r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
)

# Secrets identified by the text around them
_BY_CONTEXT = (
    _rule("azure-signature", "sig=", r"[?&]sig=(?P<secret>[A-Za-z0-9%+/=]{20,})"),
    _rule(
        "url-password",
        "://",
        r"://[^\s/:@\"'<>]{0,100}:(?P<secret>[^\s/@\"'<>]{1,200})@",
        accepts=is_secret_value,
    ),
    _rule(
        "authorization",
        "authorization",
        r"authorization\W{1,8}(?:bearer|basic|token|digest|apikey)\s{1,4}",
        r"(?P<secret>[^\s\"'\\,;]{6,})",
        accepts=is_secret_value,
        flags=re.IGNORECASE,
    ),
    _rule(
        "authorization",
        "bearer",
        r"\bbearer\s{1,4}(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        accepts=is_key_like,
        flags=re.IGNORECASE,
    ),
    _rule(
        "password",
        _NAME_HINTS,
        _NAMES + _AFTER_NAME,
        r"\s{0,4}(?::=|=>|[:=])\s{0,4}\\{0,4}(?P<quote>[\"'`])",
        r"(?P<secret>[^\"'`\n]{4,400}?)\\{0,4}(?P=quote)",
        accepts=is_secret_value,
        flags=re.IGNORECASE,
    ),
    _rule(
        "password",
        _NAME_HINTS,
        _NAMES + _AFTER_NAME,
        r"\s{0,4}(?::=|[:=])\s{0,4}(?P<secret>[^\s\"'`\\,;(){}\[\]<>|&]{4,400})",
        accepts=is_key_like,
        flags=re.IGNORECASE,
    ),
    # A name in capitals is an environment variable; its value needs no digit.
    _rule(
        "password",
        "pass pwd secret token key",
        r"(?:PASSWORD|PASSWD|PASSPHRASE|PWD|SECRET|TOKEN|_KEY)=",
        r"(?P<secret>[^\s\"'`\\,;(){}\[\]<>|&/]{6,400})",
        accepts=is_secret_value,
    ),
    _rule(
        "password",
        "--pass --token --secret --api",
        r"--(?:password|passwd|pass|token|secret|api-?key)(?:=|\s{1,4})[\"']?",
        r"(?P<secret>[^\s\"'\\-][^\s\"'\\]{3,})",
        accepts=is_secret_value,
        flags=re.IGNORECASE,
    ),
    _rule(
        "password",
        "mysql mariadb",
        r"\b(?:mysql|mariadb)\w{0,10}\s[^\n|;]{0,100}?-p(?P<secret>[^\s\"'-][^\s\"']{3,})",
        accepts=is_secret_value,
    ),
    _rule(
        "password",
        "sshpass",
        r"\bsshpass\s{1,4}-p\s{0,4}[\"']?(?P<secret>[^\s\"']{4,})",
        accepts=is_secret_value,
    ),
    _rule(
        "password",
        "curl",
        r"\bcurl\s[^\n|;]{0,200}?(?:-u|--user)\s{1,4}[\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"']{4,})",
        accepts=is_secret_value,
    ),
    _rule(
        "password",
        "password passphrase",
        r"\b(?:password|passphrase)\s(?:is|was)\s[\"'`]?(?P<secret>[^\s\"'`]{6,})",
        accepts=is_key_like,
        flags=re.IGNORECASE,
    ),
)

# Random words
_BY_RANDOMNESS = (
    _rule(
        "random-text",
        "",
        # A prefix and a long hexadecimal number; the prefix itself is not hexadecimal.
        _START + r"(?=[a-fA-F0-9]{0,12}[g-zG-Z_-])[A-Za-z][A-Za-z0-9]{1,12}[_-]?[a-f0-9]{32,}",
        r"(?![A-Za-z0-9])",
    ),
    _rule("random-text", "", r"(?<![\w-])[\w-]{24,}", accepts=is_random),
)

SECRET_RULES = (*_BY_FORM, *_BY_CONTEXT, *_BY_RANDOMNESS)
"""Rules in the order of application: the specific kinds come before the general ones."""

EMAIL_RULE = _rule(
    "email",
    "@",
    r"(?<![\w.%+-])(?!git@)[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}",
    r"\.[A-Za-z]{2,24}\b",
)

# Characters before the end of a private key in which its beginning is searched.
_MAX_KEY_LENGTH = 16_000
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_REVERSED_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]*")


def redact(text: str, *, emails: bool) -> Redacted:
    """Replace each secret by ``[redacted:<kind>]``.

    Args:
        text: Any text.
        emails: Whether e-mail addresses are replaced too.
    """
    counts: Counter[str] = Counter()
    lower = text.lower()
    for rule in (*SECRET_RULES, EMAIL_RULE) if emails else SECRET_RULES:
        if any(hint in lower for hint in rule.hints):
            text = _apply(rule, text, counts)
    if "private key" in lower:
        text = _without_headless_keys(text, counts)
    return Redacted(text, dict(sorted(counts.items())))


def _apply(rule: SecretRule, text: str, counts: Counter[str]) -> str:
    group = "secret" if "secret" in rule.pattern.groupindex else 0

    def replaced(found: re.Match[str]) -> str:
        if "[redacted:" in found[group] or not rule.accepts(found[group]):
            return found[0]
        counts[rule.kind] += 1
        start, end = (position - found.start() for position in found.span(group))
        return f"{found[0][:start]}[redacted:{rule.kind}]{found[0][end:]}"

    return rule.pattern.sub(replaced, text)


def _without_headless_keys(text: str, counts: Counter[str]) -> str:
    """Replace private keys whose beginning was truncated."""
    parts: list[str] = []
    done = 0
    for end in _KEY_END.finditer(text):
        before = text[max(done, end.start() - _MAX_KEY_LENGTH) : end.start()]
        body = _REVERSED_KEY_BODY.match(before[::-1])
        length = len(body[0]) if body else 0
        parts += text[done : end.start() - length], "[redacted:private-key]"
        done = end.end()
        counts["private-key"] += 1
    return "".join(parts) + text[done:]
