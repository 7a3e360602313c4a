"""The list of mutants: stated faults in formulas, joins, limits, money, and who sees what.

``planted.toml`` and ``drawn.toml`` say for each: its file, the text in it and what replaces it, the
fault in one sentence, and the tests that notice.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTS = (Path(__file__).with_name("planted.toml"), Path(__file__).with_name("drawn.toml"))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: ``old`` is in ``file`` once; ``tests`` are named as pytest names them."""

    name: str
    file: str
    fault: str
    old: str
    new: str
    tests: tuple[str, ...]

    def mutated(self, root: Path) -> str:
        """Return the text of its file below ``root`` with the fault in it.

        Raises:
            ValueError: The old text is not there, or more than once.
        """
        text = (root / self.file).read_text(encoding="utf-8")
        if (number := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: the old text is {number} times in {self.file}")
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """Return all mutants, in the order of the lists."""
    return [
        Mutant(name=name, **{**entry, "tests": tuple(entry["tests"])})
        for path in LISTS
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items()
    ]
