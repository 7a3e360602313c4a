"""Short names of repositories, which telemetry names by their address or path."""

from collections import Counter
from collections.abc import Iterable, Mapping


def short_name(repository: str) -> str:
    """Return the last part of the name or address of a repository."""
    name = repository.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return name or repository


def short_names(repositories: Iterable[str | None]) -> Mapping[str, str]:
    """Return the name of each repository next to the others: short where no other one has it."""
    known = {each for each in repositories if each is not None}
    number = Counter(map(short_name, known))
    return {each: each if number[short_name(each)] > 1 else short_name(each) for each in known}
