"""One clock and one source of ids for the whole program, which do only what they are told to."""

import hashlib
import importlib
import os
import pkgutil
import random
import re
import sys
import time
from datetime import UTC, datetime, tzinfo
from itertools import count
from typing import Any, Self

import evaluation_pipelines

NOW = datetime(2026, 12, 1, tzinfo=UTC)
"""Later than all telemetry."""

_RUNS_ALONE = re.compile(r"\.(__main__|migrations\..*)$")
"""Modules that something happens by when they are imported."""


class _LikeDatetime(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


class Datetime(datetime, metaclass=_LikeDatetime):
    """``datetime`` with the pinned time; whatever it makes is a plain ``datetime``."""

    pinned = NOW

    def __new__(cls, *parts: Any, **named: Any) -> Self:
        """Return a plain one."""
        return datetime(*parts, **named)  # type: ignore[return-value]  # noqa: DTZ001

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        """Return the pinned time."""
        return cls.pinned.astimezone(tz)  # type: ignore[return-value]


class Ids:
    """What the system's source of random bytes gives: the same after each ``begin`` of a name."""

    name, numbers = "", count()

    @classmethod
    def begin(cls, name: str) -> None:
        """Begin the bytes of a name."""
        cls.name, cls.numbers = name, count()

    @classmethod
    def bytes(cls, size: int) -> bytes:
        """Return the next bytes."""
        return hashlib.shake_256(f"{cls.name} {next(cls.numbers)}".encode()).digest(size)


def pin() -> None:
    """Let every module of the program read ``Datetime.pinned``, and take ids from ``Ids``.

    All modules are imported before: what they say of types is of the usual classes.
    """
    os.urandom = random._urandom = Ids.bytes  # type: ignore[attr-defined]
    time.time = lambda: Datetime.pinned.timestamp()  # noqa: PLW0108 - it moves
    time.time_ns = lambda: int(Datetime.pinned.timestamp()) * 10**9
    package = evaluation_pipelines
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not _RUNS_ALONE.search(found.name):
            importlib.import_module(found.name)
    for name, module in list(sys.modules.items()):
        is_ours = name.startswith(f"{package.__name__}.")
        if is_ours and getattr(module, "datetime", None) is datetime:
            setattr(module, "datetime", Datetime)  # noqa: B010 - modules have no such type
