"""Generated secrets of valid form in the contexts in which agents show them.

The secrets are assembled here from a seed, so that no file contains anything like a secret.
"""

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "_-"
BASE64 = ALNUM + "+/"
HEX = "0123456789abcdef"
DIGITS = string.digits
UPPER = string.ascii_uppercase + "234567"


@dataclass(frozen=True, slots=True)
class Planted:
    """A text that contains one secret.

    Attributes:
        group: ``named`` (a service with a specific rule), ``unnamed`` (a service without a rule),
            ``placed`` (identified by the text around it).
        kind: Kind of the secret.
        secret: The secret.
        text: Text that contains the secret.
    """

    group: str
    kind: str
    secret: str
    text: str


def _of(letters: str, length: int) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choices(letters, k=length))


def _after(prefix: str, letters: str, length: int) -> Callable[[random.Random], str]:
    return lambda rng: prefix + _of(letters, length)(rng)


def _jwt(rng: random.Random) -> str:
    head = {"alg": "HS256", "typ": "JWT"}
    body = {"sub": str(rng.randrange(10**9)), "exp": rng.randrange(10**9)}
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode()
        for each in (head, body)
    ]
    return ".".join([*parts, _of(URL_SAFE, 43)(rng)])


def _pem(label: str) -> Callable[[random.Random], str]:
    def make(rng: random.Random) -> str:
        lines = [_of(BASE64, 64)(rng) for _ in range(rng.randint(4, 26))]
        body = "\n".join([*lines, _of(BASE64, rng.randint(10, 60))(rng) + "=="])
        return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"

    return make


def _password(rng: random.Random) -> str:
    word = rng.choice(["Sommer", "hunter", "dragon", "Kestrel", "blue-otter", "Tr0ub4dor"])
    return f"{word}{rng.choice('!#%+_.-')}{rng.randrange(10, 99999)}"


def _word_password(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(8, 14)))


_TOKENS: dict[str, Callable[[random.Random], str]] = {
    "OpenAI (project)": lambda rng: (
        f"sk-proj-{_of(URL_SAFE, 74)(rng)}T3BlbkFJ{_of(URL_SAFE, 74)(rng)}"
    ),
    "OpenAI (older)": lambda rng: f"sk-{_of(ALNUM, 20)(rng)}T3BlbkFJ{_of(ALNUM, 20)(rng)}",
    "Anthropic": lambda rng: f"sk-ant-api03-{_of(URL_SAFE, 93)(rng)}AA",
    "OpenRouter": _after("sk-or-v1-", HEX, 64),
    "AWS access key id": _after("AKIA", UPPER, 16),
    "GitHub (classic)": _after("ghp_", ALNUM, 36),
    "GitHub (app)": _after("ghs_", ALNUM, 36),
    "GitHub (fine-grained)": lambda rng: f"github_pat_{_of(ALNUM, 22)(rng)}_{_of(ALNUM, 59)(rng)}",
    "GitLab": _after("glpat-", URL_SAFE, 20),
    "Slack (bot)": lambda rng: "-".join(
        ["xoxb", _of(DIGITS, 12)(rng), _of(DIGITS, 13)(rng), _of(ALNUM, 24)(rng)]
    ),
    "Google API": _after("AIza", URL_SAFE, 35),
    "Google OAuth client": _after("GOCSPX-", URL_SAFE, 28),
    "Google OAuth access": _after("ya29.a0", URL_SAFE, 160),
    "Stripe": _after("sk_" + "live_", ALNUM, 24),
    "npm": _after("npm_", ALNUM, 36),
    "PyPI": _after("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 150),
    "Hugging Face": _after("hf_", ALNUM, 34),
    "SendGrid": lambda rng: f"SG.{_of(URL_SAFE, 22)(rng)}.{_of(URL_SAFE, 43)(rng)}",
    "DigitalOcean": _after("dop_v1_", HEX, 64),
    "Databricks": _after("dapi", HEX, 32),
    "HashiCorp Vault": _after("hvs.", URL_SAFE, 95),
    "age": _after("AGE-SECRET-KEY-1", string.ascii_uppercase + string.digits, 58),
    "Telegram bot": lambda rng: f"{rng.randrange(10**8, 10**10)}:AA{_of(URL_SAFE, 33)(rng)}",
    "JSON web token": _jwt,
}
"""Secrets identified by their form."""

_TOKEN_CONTEXTS = (
    "export SERVICE_CREDENTIAL={}",
    'client = Client("{}")',
    '{{"cmd": "curl -H \'X-Auth: {}\' https://api.example.com/v1/items"}}',
    "2026-11-02T09:00:01Z ERROR request refused, used {} of the old account",
    "    - name: THING\n      value: {}\n",
    "I found {} in the file and left it as it is.",
    "https://api.example.com/v1/items?k={}&page=2",
    '{{\\"header\\": \\"{}\\"}}',
)

_PLACED: dict[str, tuple[Callable[[random.Random], str], tuple[str, ...]]] = {
    "AWS secret key": (
        _of(BASE64, 40),
        (
            "aws_secret_access_key = {}",
            "AWS_SECRET_ACCESS_KEY={}",
            '"SecretAccessKey": "{}"',
            "export AWS_SECRET_ACCESS_KEY='{}'",
        ),
    ),
    "Azure storage key": (
        lambda rng: _of(BASE64, 86)(rng) + "==",
        ("DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};EndpointSuffix=core",),
    ),
    "Azure signature": (
        lambda rng: _of(ALNUM, 43)(rng) + "%3D",
        ("https://shop.blob.core.windows.net/a/b?sv=2024-11-04&sp=r&sig={}",),
    ),
    "Slack webhook": (
        lambda rng: f"T{_of(UPPER, 8)(rng)}/B{_of(UPPER, 8)(rng)}/{_of(ALNUM, 24)(rng)}",
        ("curl -d @- https://hooks.slack.com/services/{}",),
    ),
    "password in a URL": (
        _password,
        (
            "postgres://shop:{}@db.internal:5432/shop",
            "DATABASE_URL=mysql://root:{}@127.0.0.1/app",
            "git clone https://bot:{}@git.example.com/shop.git",
            "redis://:{}@cache:6379/0",
        ),
    ),
    "password that is named": (
        _password,
        (
            "DB_PASSWORD={}",
            'password = "{}"',
            '{{"user": "shop", "password": "{}"}}',
            '{{\\"user\\": \\"shop\\", \\"password\\": \\"{}\\"}}',
            "  password: {}",
            "spring.datasource.password={}",
            "Server=db;User Id=sa;Password={};",
            "mysqldump --password={} shop",
            "psql --password '{}'",
            "os.environ['DB_PASSWORD'] = '{}'",
        ),
    ),
    "password of letters alone": (
        _word_password,
        ("DB_PASSWORD={}", 'password = "{}"', '"passphrase": "{}"', "  password: {}"),
    ),
    "token that is named": (
        _of(HEX, 40),
        (
            "API_TOKEN={}",
            '"access_token": "{}"',
            "api_key: {}",
            "client_secret={}&grant_type=client_credentials",
            'headers = {{"X-Api-Key": "{}"}}',
            "x-api-key: {}",
            "deploy --token {}",
        ),
    ),
    "header of a request": (
        _of(URL_SAFE, 32),
        (
            "Authorization: Bearer {}",
            '{{"Authorization": "Bearer {}"}}',
            "curl -H 'authorization: bearer {}' https://api.example.com",
            "> Authorization: Basic {}",
        ),
    ),
    "private key": (
        lambda rng: _pem(
            rng.choice(["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"])
        )(rng),
        ("$ cat id\n{}\n$ ls", "key: |\n{}"),
    ),
    "password in a sentence": (_password, ("The password is {} and works.",)),
    "bare random text": (_of(ALNUM, 40), ("It printed {} at the end.",)),
    "password as an argument": (
        _password,
        (
            "mysql -uroot -p{} shop",
            "sshpass -p {} ssh host",
            "curl -s -u bot:{} https://example.com",
        ),
    ),
}
"""Secrets identified by the text around them."""


_UNNAMED: dict[str, Callable[[random.Random], str]] = {
    "Shopify": _after("shpat_", HEX, 32),
    "Linear": _after("lin_api_", ALNUM, 40),
    "Grafana": lambda rng: f"glsa_{_of(ALNUM, 32)(rng)}_{_of(HEX, 8)(rng)}",
    "Doppler": _after("dp.pt.", ALNUM, 43),
    "Figma": _after("figd_", URL_SAFE, 40),
    "Notion": _after("ntn_", ALNUM, 46),
    "Atlassian": _after("ATATT3", URL_SAFE, 186),
    "Airtable": lambda rng: f"pat{_of(ALNUM, 14)(rng)}.{_of(HEX, 64)(rng)}",
    "Mailgun": _after("key-", HEX, 32),
    "Twilio": _after("SK", HEX, 32),
    "New Relic": _after("NRAK-", string.ascii_uppercase + DIGITS, 27),
    "Postman": lambda rng: f"PMAK-{_of(HEX, 24)(rng)}-{_of(HEX, 34)(rng)}",
    "PlanetScale": _after("pscale_tkn_", URL_SAFE, 43),
    "Supabase": _after("sbp_", HEX, 40),
    "Groq": _after("gsk_", ALNUM, 52),
    "Perplexity": _after("pplx-", ALNUM, 48),
    "xAI": _after("xai-", ALNUM, 80),
    "Replicate": _after("r8_", ALNUM, 37),
    "Tailscale": lambda rng: f"tskey-auth-{_of(ALNUM, 12)(rng)}-{_of(ALNUM, 32)(rng)}",
    "Docker Hub": _after("dckr_pat_", URL_SAFE, 27),
    "RubyGems": _after("rubygems_", HEX, 48),
    "Discord bot": lambda rng: (
        f"MT{_of(ALNUM, 22)(rng)}.G{_of(ALNUM, 5)(rng)}.{_of(URL_SAFE, 38)(rng)}"
    ),
    "Artifactory": _after("AKCp", ALNUM, 69),
    "Azure AD": lambda rng: f"{_of(ALNUM, 3)(rng)}8Q~{_of(URL_SAFE, 34)(rng)}",
    "1Password": lambda rng: f"ops_eyJ{_of(BASE64, 250)(rng)}",
    "Pulumi": _after("pul-", HEX, 40),
}
"""Tokens of services without a rule, identified only by their randomness."""


def planted(seed: int, each: int) -> Iterator[Planted]:
    """Yield ``each`` secrets of every kind, in varying contexts."""
    rng = random.Random(seed)  # noqa: S311 - the corpus must be reproducible
    for group, makers in (("named", _TOKENS), ("unnamed", _UNNAMED)):
        for kind, make in makers.items():
            for number in range(each):
                secret = make(rng)
                context = _TOKEN_CONTEXTS[number % len(_TOKEN_CONTEXTS)]
                yield Planted(group, kind, secret, context.format(secret))
    for kind, (make, contexts) in _PLACED.items():
        for number in range(each):
            secret = make(rng)
            yield Planted("placed", kind, secret, contexts[number % len(contexts)].format(secret))
