"""The frozen plan of an experiment, and its assignment, without any library: a start script waits.

The plan with its key is a row of the ledger, and a file for machines that assign without it.
"""

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from typing import Literal, TypeAlias

from evaluation_pipelines.errors import UserError

LOOKS = 3
DIFFERENCE, SESSIONS, RUN_SD = 5.0, 20, 16.0
"""Wanted difference, sessions of each person and their deviation, if nothing else is known."""

TAU = 5.0
"""Usual standard deviation of people's true differences."""

Unit = Literal["session", "person"]
Judged: TypeAlias = tuple[int, str | None]
"""Version of a profile, and the model that judges its sessions (None without a judge)."""


class PlanError(UserError, ValueError):
    """A text without a plan."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment as it was frozen before its start.

    Attributes:
        name: Its name: sessions have their arm as the attribute ``experiment.NAME``.
        arms: Names of the two arms.
        share: Probability of the first arm.
        unit: Whether sessions or people are assigned.
        days: Planned days.
        starts_on: First UTC day.
        metric: Primary metric, a name of the gate's metrics.
        profile: Judge profile whose scores count, None for any.
        judge: Judge model at the start, None without one.
        key: Secret of the assignment, in hexadecimal digits.
        profiles: Version and judge of each profile at the start. Empty in older plans.
    """

    name: str
    arms: tuple[str, str]
    share: float
    unit: Unit
    days: int
    starts_on: date
    metric: str
    profile: str | None
    judge: str | None
    key: str
    profiles: Mapping[str, Judged] = field(default_factory=dict)

    @property
    def look_days(self) -> tuple[date, ...]:
        """The days from which each look is shown: after 1/3, 2/3 and all of the days."""
        return tuple(
            self.starts_on + timedelta(days=math.ceil(self.days * look / LOOKS))
            for look in range(1, LOOKS + 1)
        )

    def due(self, today: date) -> int:
        """Return the number of looks that are due."""
        return sum(day <= today for day in self.look_days)

    def arm(self, unit: str) -> str:
        """Return the arm of a unit, always the same: a keyed hash (HMAC-SHA256) decides."""
        text = f"{self.name}\0{unit}".encode()
        digest = hmac.new(bytes.fromhex(self.key), text, hashlib.sha256).digest()
        return self.arms[int.from_bytes(digest[:8]) >= self.share * 2**64]

    def text(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(asdict(self) | {"starts_on": self.starts_on.isoformat()})


def read_plan(text: str) -> Plan:
    """Return the plan of a text of ``Plan.text``.

    Raises:
        PlanError: The text has another form.
    """
    try:
        known = json.loads(text)
        starts_on, arms = date.fromisoformat(known["starts_on"]), tuple(known["arms"])
        profiles = {name: tuple(version) for name, version in known.get("profiles", {}).items()}
        plan = Plan(**(known | {"starts_on": starts_on, "arms": arms, "profiles": profiles}))
        bytes.fromhex(plan.key)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanError("no plan of an experiment") from error
    return plan
