"""Fence between the instructions to the judge and the text of an agent's session.

All telemetry is data. It is placed between two lines that contain an unpredictable boundary, and
each of its lines begins with a bar, so that no line of it can be mistaken for the closing line.
Times, labels and marks that this program adds to the text are sealed with a word that the text does
not contain, so that no text can imitate them.
"""

import hashlib
import itertools
import re
import unicodedata

from evaluation_pipelines.judging.domain.prompt.characters import HEX_LOOK_ALIKES, LINE_END, SEAL

BAR = "| "

_BOUNDARY = re.compile(r"[0-9A-Za-z]{16,128}")
_REMOVED = "[removed]"
_SEAL_LETTERS = "bcdfghjkmnpqrstvwxz"
_SEAL_LENGTH = 4


def seal_word(boundary: str, *texts: str) -> str:
    """Return a word of 4 letters that is in none of ``texts``, derived from ``boundary``.

    In a text that contains very many words the word is longer.
    """
    folded = [text.casefold() for text in texts]
    words = (_drawn_word(boundary, attempt) for attempt in itertools.count())
    return next(word for word in words if not any(word in text for text in folded))


def _drawn_word(boundary: str, attempt: int) -> str:
    drawn = hashlib.sha256(f"seal {attempt} of {boundary}".encode()).digest()
    letters = drawn[: _SEAL_LENGTH + attempt // 100]
    return "".join(_SEAL_LETTERS[byte % len(_SEAL_LETTERS)] for byte in letters)


def unsealed(text: str) -> str:
    """Return a text for people, without seals."""
    return text.replace(SEAL, "")


def fenced(text: str, boundary: str, seal: str = "") -> str:
    """Return ``text`` behind bars, between an opening and a closing line with ``boundary``.

    Args:
        text: Untrusted text. Every spelling of the boundary is removed from it.
        boundary: 16 to 128 ASCII letters and digits, new and random for each scoring.
        seal: Word in place of each ``SEAL``, see ``seal_word``.

    Raises:
        ValueError: The boundary is too short or too long, or has other characters.
    """
    if not _BOUNDARY.fullmatch(boundary):
        raise ValueError("a boundary must be 16 to 128 random ASCII letters and digits")
    sealed = without_boundary(text, boundary).replace(SEAL, f" {seal}" if seal else "")
    lines = LINE_END.split(sealed)
    behind_bars = "\n".join(f"{BAR}{line}".rstrip() for line in lines)
    return f"<<<material {boundary}>>>\n{behind_bars}\n<<<end of material {boundary}>>>"


def without_boundary(text: str, boundary: str) -> str:
    """Replace every spelling of ``boundary`` in ``text`` with ``[removed]``.

    Case, width, accents, look-alike characters and separators between characters are ignored.
    """
    folded_boundary = _folded(boundary)
    if folded_boundary not in _folded(text):
        return text
    folded, positions = _folded_with_positions(text)
    parts: list[str] = []
    end = 0
    found = folded.find(folded_boundary)
    while found >= 0:
        # The replacement keeps the text around it from forming the boundary again.
        parts += text[end : positions[found]], _REMOVED
        end = positions[found + len(folded_boundary) - 1] + 1
        found = folded.find(folded_boundary, found + len(folded_boundary))
    return "".join(parts) + text[end:]


def _folded_with_positions(text: str) -> tuple[str, list[int]]:
    """Return the folded text, and for each of its characters the position in ``text``."""
    folded: list[str] = []
    positions: list[int] = []
    for position, character in enumerate(text):
        for each in _folded(character):
            folded.append(each)
            positions.append(position)
    return "".join(folded), positions


def _folded(text: str) -> str:
    """Return the letters and digits of ``text``, each in its plainest form."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    return "".join(filter(str.isalnum, plain.casefold().translate(HEX_LOOK_ALIKES)))
