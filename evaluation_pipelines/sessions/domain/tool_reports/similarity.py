"""Similarity of the parameters of two tool calls.

Apart from ``parameters.py``: calls are often read without being compared, and the library that
compares texts takes a while to import.
"""

from rapidfuzz import fuzz

from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    Parameters,
    Value,
    truncate,
)

SIMILAR = 0.9
"""Lowest similarity at which two calls count as the same."""


def similarity(one: Parameters, other: Parameters) -> float:
    """Return the similarity of two calls of the same tool, from 0 to 1.

    The mean over the union of their names: ``rapidfuzz.fuzz.ratio`` / 100 for texts, 1 or 0 for
    other values that are equal or not, and 0 for a name that only one call has. Two calls without
    parameters are equal.
    """
    names = one.keys() | other.keys()
    if not names:
        return 1.0
    # Sorted, so that the same calls have the same sum to the last bit.
    return sum(_similarity(one.get(name), other.get(name)) for name in sorted(names)) / len(names)


def is_similar(score: float) -> bool:
    """Return whether a similarity reaches the limit, rounded to nine decimals against noise."""
    return round(score, 9) >= SIMILAR


def _similarity(one: Value | None, other: Value | None) -> float:
    if one == other:
        return 1.0
    if one is None or other is None or not (one[0] and other[0]):
        return 0.0
    a, b = one[1], other[1]
    # The parts that are not compared may differ in length, which limits the similarity.
    return min(
        fuzz.ratio(truncate(a), truncate(b)) / 100, 2 * min(len(a), len(b)) / (len(a) + len(b))
    )
