"""The fence between the judge's instructions and what an agent's session says.

Everything from telemetry is data. It stands between two lines that hold a boundary nobody could
know beforehand, and each line of it begins with a bar, so that no line of it can look like the
closing one, whatever it says.
"""

import re
import unicodedata

BAR = "| "

_BOUNDARY = re.compile(r"[0-9A-Za-z]{16,128}")
_LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

_REMOVED = "[removed]"

# Letters that look like a digit or a letter of a hexadecimal number, the usual boundary.
_LOOK_ALIKES = str.maketrans(
    # Cyrillic a c e d b, Greek a b c, Greek and Cyrillic o, Cyrillic and dotless i
    "\u0430\u0441\u0435\u0501\u044c\u03b1\u03b2\u03f2\u03bf\u043eo\u04cfl\u0131i",
    "acedbabc0001111",
)


def fenced(text: str, boundary: str) -> str:
    """The text behind bars, between an opening and a closing line with the boundary.

    Args:
        text: Untrusted. Where it holds the boundary, in whatever spelling, that is taken out.
        boundary: 16 to 128 ASCII letters and digits, new and random for each scoring.

    Raises:
        ValueError: the boundary could be guessed or could not be found again.
    """
    if not _BOUNDARY.fullmatch(boundary):
        raise ValueError("a boundary is 16 to 128 ASCII letters and digits, made at random")
    lines = _LINE_ENDS.split(without_boundary(text, boundary))
    behind_bars = "\n".join(f"{BAR}{line}".rstrip() for line in lines)
    return f"<<<material {boundary}>>>\n{behind_bars}\n<<<end of material {boundary}>>>"


def without_boundary(text: str, boundary: str) -> str:
    """The text without the boundary: in any case, width, accent, look-alike or with gaps in it."""
    sought = _folded(boundary)
    if sought not in _folded(text):
        return text
    spelled, place = _spelled(text)
    kept: list[str] = []
    done = 0
    found = spelled.find(sought)
    while found >= 0:
        # What stands around it must not grow together to another one.
        kept += text[done : place[found]], _REMOVED
        done = place[found + len(sought) - 1] + 1
        found = spelled.find(sought, found + len(sought))
    return "".join(kept) + text[done:]


def _spelled(text: str) -> tuple[str, list[int]]:
    """The folded text, and from which letter of the text each of its letters comes."""
    folded: list[str] = []
    place: list[int] = []
    for index, letter in enumerate(text):
        for each in _folded(letter):
            folded.append(each)
            place.append(index)
    return "".join(folded), place


def _folded(text: str) -> str:
    """Letters and digits alone, each in its plainest form."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    return "".join(filter(str.isalnum, plain.casefold().translate(_LOOK_ALIKES)))
