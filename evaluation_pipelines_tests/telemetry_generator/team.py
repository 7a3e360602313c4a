"""The made-up team of the demo: its models, masques and developers, and what is true of each.

Nothing here says anything about a real model or company: the names are made up. The
numbers are the ground truth that scores and comparisons of the demo can be held against.
"""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Model:
    """A model, by what it does and costs.

    Attributes:
        name: As telemetry names it.
        tool_failure: Probability that one of its tool calls fails.
        calls_per_prompt: Tool calls it makes for a prompt, on average, at scale 1.
        input_price: Nano-dollars (1e-9 USD) per uncached input token; 3000 is 3 USD a million.
        output_price: The same for output tokens.
        cache_read_price: The same for input tokens read from the cache.
        cache_write_price: The same for input tokens written to the cache.
    """

    name: str
    tool_failure: float
    calls_per_prompt: float
    input_price: int
    output_price: int
    cache_read_price: int
    cache_write_price: int


@dataclass(frozen=True, slots=True)
class Masque:
    """A persona, by how work under it differs from work without one.

    Attributes:
        name: As telemetry names it; None for no masque, the baseline.
        more_failures: Added to the model's probability that a tool call fails.
        calls_factor: Multiplies the model's calls per prompt.
        tools: Name of a tool -> how often it is used, relative to the others.
        decline: What the last day has in addition to the first one: so much more probability of
            failure, and calls per prompt lower by that share; days between in proportion.
    """

    name: str | None
    more_failures: float
    calls_factor: float
    tools: tuple[tuple[str, int], ...]
    decline: float = 0.0

    def failure(self, model: Model, elapsed: float) -> float:
        """Probability that a tool call fails; ``elapsed`` runs from 0 (first day) to 1 (last)."""
        return model.tool_failure + self.more_failures + self.decline * elapsed

    def calls_per_prompt(self, model: Model, elapsed: float) -> float:
        """Tool calls for a prompt, on average."""
        return model.calls_per_prompt * self.calls_factor * (1 - self.decline * elapsed)


@dataclass(frozen=True, slots=True)
class Team:
    """Developers who work with the same settings.

    Attributes:
        organization: Value of ``organization.id``.
        name: Value of ``team.id``.
        people: First names of its developers.
        repositories: What they work on: names, or URLs.
        version: Of their agent program; up to 2.1.121 it writes numbers as strings.
        has_hooks: Whether a hook runs at each prompt and tool call.
        logs_details: Whether parameters of tool calls and texts of errors are logged.
        logs_texts: Whether prompts and replies are logged.
    """

    organization: str
    name: str
    people: tuple[str, ...]
    repositories: tuple[str, ...]
    version: str
    has_hooks: bool
    logs_details: bool
    logs_texts: bool

    @property
    def is_modern(self) -> bool:
        """Whether numbers are numbers, replies are events and labels stand on every record."""
        return self.version != OLD_VERSION


@dataclass(frozen=True, slots=True)
class Login:
    """What telemetry says of a developer at one machine.

    Attributes:
        account_id: 64 hex digits, as the agent program makes them up for an installation.
        email: E-mail; None where an API key is used.
        user_id: User id that OTEL_RESOURCE_ATTRIBUTES gives; None for none.
        is_signed_in: Whether the agent program sends the e-mail of an account, on every record;
            otherwise OTEL_RESOURCE_ATTRIBUTES gives it.
    """

    account_id: str
    email: str | None = None
    user_id: str | None = None
    is_signed_in: bool = False


@dataclass(frozen=True, slots=True)
class Developer:
    """One of a team."""

    team: Team
    number: int

    @property
    def name(self) -> str:
        """First name, in small letters: ``person_id`` in the identities of the demo."""
        return self.team.people[self.number]

    @property
    def logins(self) -> tuple[Login, ...]:
        """One or two ways in which telemetry knows the developer."""
        first, second = self._account(""), self._account(", at home")
        work = f"{self.name}@orchard.example"
        match self.name:
            case "ana":  # two accounts with an e-mail each
                return (
                    Login(first, email=work, is_signed_in=True),
                    Login(second, email="ana@ash.example", is_signed_in=True),
                )
            case "ben":  # two machines, and API keys
                return Login(first), Login(second)
            case "cleo":
                return (Login(first, user_id="cleo"),)
        return (Login(first, email=work if self.team.name == "storefront" else None),)

    def login_of(self, session_id: str) -> Login:
        """The login of a session."""
        return self.logins[_digit(session_id, -1) % len(self.logins)]

    def _account(self, where: str) -> str:
        name = f"developer {self.number} of {self.team.name}{where}"
        return hashlib.sha256(name.encode()).hexdigest()


def workplace_of(team: Team, session_id: str) -> dict[str, str]:
    """Attributes that tell where a session ran: repository, branch and environment."""
    repository = team.repositories[_digit(session_id, -2) % len(team.repositories)]
    is_url = "://" in repository
    return {
        "vcs.repository.url.full" if is_url else "vcs.repository.name": repository,
        "vcs.ref.head.name": "main" if _digit(session_id, -3) < 6 else f"topic-{session_id[:2]}",
        "deployment.environment.name": "laptop" if _digit(session_id, -4) < 12 else "container",
    }


def _digit(session_id: str, place: int) -> int:
    return int(session_id[place], 16)


OLD_VERSION = "2.1.121"
MODERN_VERSION = "2.1.330"

ASPEN = Model("aspen-4", 0.03, 4.8, 3000, 15_000, 300, 3750)
BIRCH = Model("birch-4-mini", 0.19, 3.6, 1000, 5000, 100, 1250)
CEDAR = Model("cedar-5", 0.03, 4.8, 3000, 15_000, 300, 3750)
MODELS = (ASPEN, BIRCH, CEDAR)
"""The three models. By construction, whatever the seed and in every masque alike:

* tool calls of birch-4-mini fail 16 percentage points more often than those of aspen-4, which is
  1.6 of quality;
* it asks for a quarter fewer calls for a prompt;
* each of its tokens costs exactly a third;
* cedar-5 is aspen-4 under another name: who finds a difference between them has found chance.

Failing loops and refused calls come on top, and strike all alike.
"""

BASELINE = Masque(
    None,
    0.0,
    1.0,
    (("Read", 7), ("Grep", 3), ("Glob", 1), ("Edit", 5), ("Write", 1), ("Bash", 6), ("Task", 1)),
)
CODESMITH = Masque(
    "Codesmith",
    -0.02,
    1.1,
    (("Read", 6), ("Grep", 2), ("Edit", 8), ("Write", 3), ("Bash", 4), ("mcp_tool", 1)),
)
REVIEWER = Masque(
    "Reviewer", -0.01, 0.9, (("Read", 12), ("Grep", 6), ("Glob", 2), ("Bash", 4), ("mcp_tool", 1))
)
FIREFIGHTER = Masque(
    "Firefighter",
    0.03,
    1.0,
    (("Read", 4), ("Grep", 4), ("Edit", 3), ("Bash", 12), ("mcp_tool", 1)),
    decline=0.3,
)
SCOUT = Masque(
    "Scout", 0.01, 0.8, (("WebSearch", 4), ("WebFetch", 6), ("Read", 4), ("Grep", 2), ("Task", 1))
)
MASQUES = (CODESMITH, REVIEWER, FIREFIGHTER, SCOUT)
"""Codesmith fails least, Firefighter gets worse from day to day, the others stay as they are."""

TEAMS = (
    Team(
        "orchard",
        "platform",
        ("ana", "ben", "cleo", "dan", "eva"),
        ("engine", "toolbox"),
        MODERN_VERSION,
        has_hooks=True,
        logs_details=True,
        logs_texts=True,
    ),
    Team(
        "orchard",
        "storefront",
        ("finn", "gia", "hugo", "ida"),
        ("https://git@git.orchard.example/shop.git", "checkout"),
        MODERN_VERSION,
        has_hooks=True,
        logs_details=True,
        logs_texts=False,
    ),
    Team(
        "lighthouse",
        "signals",
        ("jon", "kim", "leo"),
        ("beacon",),
        OLD_VERSION,
        has_hooks=False,
        logs_details=False,
        logs_texts=False,
    ),
)
DEVELOPERS = tuple(Developer(team, number) for team in TEAMS for number in range(len(team.people)))

LABELS = (
    ("simple", (1, 2)),
    ("code", (3, 4)),
    ("complex", (4, 6)),
    ("multi-step", (6, 8)),
    (None, (2, 5)),
)
"""Classification label -> fewest and most prompts of such a session."""
