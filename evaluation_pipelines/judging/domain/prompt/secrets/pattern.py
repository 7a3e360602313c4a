"""One row of the tables of patterns that redaction searches for."""

from typing import NamedTuple


class SecretPattern(NamedTuple):
    """One form of a secret, or one place in which a secret stands.

    Attributes:
        kind: Name of the kind, which replaces the secret.
        hints: Separated by commas; the pattern is searched only if the lower-case text contains one
            of them. Empty if it is always searched.
        pattern: Regular expression whose repetitions are all bounded or followed by a character
            that they cannot match, so that its time is linear. With a group ``secret``, only that
            group is replaced.
        example: A text that it matches. ``{A36}`` is 36 random letters and digits; ``H`` hex, ``D``
            digits, ``U`` letters, digits, ``_`` and ``-``.
        check: Name of the check of the value, see ``checks.py``.
    """

    kind: str
    hints: str
    pattern: str
    example: str
    check: str = "any"
