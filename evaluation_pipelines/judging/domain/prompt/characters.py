"""Unicode tables: line ends, the seal, invisible characters and look-alikes of ASCII characters."""

import re
import unicodedata
from collections.abc import Iterable

LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# Look-alikes of a, e, o, c, d (Cyrillic) and of o, a (Greek).
_SHARED = str.maketrans("\u0430\u0435\u043e\u0441\u0501\u03bf\u03b1", "aeocdoa")

SEAL = "\ue000"
"""Ends what this program writes into a transcript; the fence replaces it by a random word.

It belongs to a private area of Unicode, whose characters are removed from all logged text.
"""

LATIN_LOOK_ALIKES = _SHARED | str.maketrans(
    # Cyrillic, then Greek
    "\u0440\u0445\u0443\u0456\u0458\u0455\u051b\u04bb\u043a\u043c\u0442"
    "\u03b5\u03b9\u03ba\u03bd\u03c1\u03c4\u03c5\u03c7",
    "pxyijsqhkmteikvptux",
)
"""Lower-case Cyrillic and Greek letters to the Latin letters that they look like."""

HEX_LOOK_ALIKES = _SHARED | str.maketrans(
    # b and c, then o in three alphabets, then Cyrillic palochka, dotless i, l and i
    "\u044c\u03b2\u03f2\u043e\u03bfo\u04cf\u0131li",
    "bbc0001111",
)
"""Characters to the hexadecimal digits that they look like; o becomes 0, and i and l become 1."""


class CategoryFilter(dict[int, int | None]):
    """``str.translate`` table that deletes the characters of some Unicode categories.

    The entry of a character is computed when it is first needed.
    """

    def __init__(self, categories: Iterable[str], keep: str = "") -> None:
        """Create a table.

        Args:
            categories: General categories to delete, such as ``Cf``.
            keep: Characters that stay although their category is deleted.
        """
        super().__init__((ord(each), ord(each)) for each in keep)
        self._categories = frozenset(categories)

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code)) in self._categories else code
        return self[code]
