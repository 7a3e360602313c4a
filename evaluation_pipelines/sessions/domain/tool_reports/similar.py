"""Find the earliest similar set of each of many parameter sets without comparing all pairs.

Equal sets already have the same key. A set is compared only with the sets before it in the same
block that have the same names, at most ``LOOK_BACK`` of them. The comparison runs over whole
columns and stops as soon as a pair cannot reach the limit any more. Only the earliest similar set
is kept: thousands that resemble each other have hundreds of pairs each.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from rapidfuzz import fuzz, process
from rapidfuzz.distance import LCSseq

from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    MAX_COMPARED_CHARACTERS,
    SIMILAR,
    Parameters,
    is_similar,
    similarity,
    truncate,
)

LOOK_BACK = 500
"""Number of different earlier sets of its block with which a parameter set is compared."""

_LARGE_BLOCK = 64
"""Blocks with more different sets are compared one by one, as a matrix in stripes."""
_STRIPE = 64
"""Rows of the matrix that are computed together; more compute more pairs out of reach."""
_PARTS = (2.5, -2.5, 4.0)
"""Parts of long texts that are compared first, from their beginning or before their end.

Multiples of the characters that similar texts may differ in: in 2.5 times as many, 60 % are in
common, which unrelated texts rarely have.
"""
_LONG = 128
"""Characters from which on comparing a part first is faster."""
_WORD = 64
"""Characters that are compared at once."""
_MOST_LEFT = 0.5
"""Share of the pairs up to which the others are worth the comparison of their beginnings."""
_MIN_NAMES_FOR_GAP = 9
"""Sets with nine common names and one missing name can be 0.9 similar; smaller ones cannot."""
_SIMILAR_BOUND = SIMILAR - 1e-9
"""The limit with room for floating-point noise."""
_FOUND = pl.Schema(
    {"block": pl.Int64(), "key": pl.Int64(), "original": pl.Int64(), "similarity": pl.Float64()}
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def earliest_similar(
    members: pl.DataFrame, parameters: Mapping[int, Parameters]
) -> tuple[pl.DataFrame, pl.Series]:
    """Return the earliest similar set of each set, and the blocks that were not compared in full.

    Args:
        members: ``block``, ``key``, ``rank``: the different keys of a block and their order.
        parameters: The parameter set of each key.

    Returns:
        ``block``, ``key``, ``original`` (the lowest rank among the similar sets before it) and
        ``similarity`` (to that one) of each set that is similar to one before it; and the blocks
        that have more than ``LOOK_BACK`` earlier sets to compare with, or a text that was
        truncated.
    """
    alone = pl.len().over("block") == 1
    shaped = _with_shapes(members.filter(~alone), parameters)
    comparable = shaped.filter(pl.len().over("block", "shape") > 1).sort("shape", "block", "rank")
    wide = shaped.filter("is_wide").filter(pl.n_unique("shape").over("block") > 1)
    found = [_FOUND.to_frame(), _across_shapes(wide.sort("block", "rank"), parameters)]
    in_part = [
        compared.filter((pl.len().over(group) > LOOK_BACK + 1) | pl.col("is_long"))["block"]
        for compared, group in ((comparable, ["block", "shape"]), (wide, ["block"]))
    ]
    is_large = pl.len().over("block", "shape") > _LARGE_BLOCK
    small = comparable.filter(~is_large).partition_by("shape")
    large = comparable.filter(is_large).partition_by("shape", "block")
    del shaped, comparable
    found += [_of_small_blocks(group, parameters) for group in small]
    found += [_of_large_block(group, parameters) for group in large]
    # A set can be similar to one with the same names and to one with others.
    earliest = pl.concat(found).sort("original").unique(["block", "key"], keep="first")
    return earliest, pl.concat(in_part).unique()


def _with_shapes(members: pl.DataFrame, parameters: Mapping[int, Parameters]) -> pl.DataFrame:
    """Add ``shape``, the same number for the same names, and what the comparison depends on.

    ``is_long`` is true for sets with a text that is truncated, and ``is_wide`` for those with so
    many names that they can be similar to a set with other names.
    """
    numbers: dict[tuple[str, ...], int] = {}
    keys = members["key"].unique(maintain_order=True)
    columns: dict[str, list[int | bool]] = {"shape": [], "is_long": [], "is_wide": []}
    for key in keys:
        found = parameters[key]
        columns["shape"].append(numbers.setdefault(tuple(sorted(found)), len(numbers)))
        columns["is_long"].append(
            any(is_text and len(text) > MAX_COMPARED_CHARACTERS for is_text, text in found.values())
        )
        columns["is_wide"].append(len(found) >= _MIN_NAMES_FOR_GAP)
    schema = {"key": pl.Int64, "shape": pl.Int64, "is_long": pl.Boolean, "is_wide": pl.Boolean}
    shapes = pl.DataFrame({"key": keys, **columns}, schema=schema)
    return members.join(shapes, on="key", how="left", maintain_order="left")


def _of_small_blocks(group: pl.DataFrame, parameters: Mapping[int, Parameters]) -> pl.DataFrame:
    """Return the earliest similar set of each set of many blocks; all sets have the same names.

    Rows are sorted by block and rank. Each set is compared with the set just before it, then with
    the one before that, and so on, in all blocks together.
    """
    blocks, keys = group["block"].to_numpy(), group["key"].to_numpy()
    sets = _ParameterSets([parameters[key] for key in keys.tolist()])
    earliest, score = np.full(keys.size, -1), np.zeros(keys.size)
    for lag in range(1, LOOK_BACK + 1):
        later = np.flatnonzero(blocks[lag:] == blocks[:-lag]) + lag
        if not later.size:
            break
        later = later[sets.bound(later, later - lag) >= _SIMILAR_BOUND]
        scores = sets.scores(later, later - lag)
        is_similar_pair = np.round(scores, 9) >= SIMILAR
        later = later[is_similar_pair]
        earliest[later], score[later] = later - lag, scores[is_similar_pair]
    return _found(group, earliest, score)


def _of_large_block(block: pl.DataFrame, parameters: Mapping[int, Parameters]) -> pl.DataFrame:
    """Return the earliest similar set of each set of one block, all with the same names.

    Rows are sorted by rank.
    """
    keys = block["key"].to_list()
    sets = _ParameterSets([parameters[key] for key in keys])
    earliest, score = np.full(len(keys), -1), np.zeros(len(keys))
    for start in range(0, len(keys), _STRIPE):
        rows = np.arange(start, min(start + _STRIPE, len(keys)))
        before = np.arange(max(0, start - LOOK_BACK), rows[-1] + 1)
        scores = sets.matrix(rows, before)
        distance = rows[:, None] - before[None, :]
        is_similar_pair = (distance > 0) & (distance <= LOOK_BACK)
        is_similar_pair &= np.round(scores, 9) >= SIMILAR
        row = np.flatnonzero(is_similar_pair.any(axis=1))
        column = is_similar_pair[row].argmax(axis=1)  # the first one
        earliest[rows[row]], score[rows[row]] = before[column], scores[row, column]
    return _found(block, earliest, score)


def _found(group: pl.DataFrame, earliest: Ints, score: Floats) -> pl.DataFrame:
    """Return the rows of ``group`` with a similar set: its row is ``earliest``, -1 for none."""
    later = np.flatnonzero(earliest >= 0)
    original = group["rank"].gather(earliest[later])
    found = group.select("block", "key")[later]
    return found.with_columns(original=original, similarity=pl.Series(score[later]))


def _across_shapes(wide: pl.DataFrame, parameters: Mapping[int, Parameters]) -> pl.DataFrame:
    """Return the earliest similar set with other names, which only sets with many names have.

    Rows are sorted by block and rank.
    """
    rows = []
    for block in wide.partition_by("block"):
        keys, shapes, ranks = (block[name].to_list() for name in ("key", "shape", "rank"))
        for later, key in enumerate(keys):
            for earlier in range(max(0, later - LOOK_BACK), later):
                if shapes[earlier] != shapes[later]:
                    score = similarity(parameters[key], parameters[keys[earlier]])
                    if is_similar(score):
                        rows.append((block["block"][0], key, ranks[earlier], score))
                        break
    return pl.DataFrame(rows, schema=_FOUND, orient="row")


class _ParameterSets:
    """Parameter sets with the same names, column by column."""

    def __init__(self, sets: Sequence[Parameters]) -> None:
        names = sorted(sets[0])
        # A text with a lower similarity keeps the mean below the limit even if all others are 1.
        lowest = max(0.0, 1 - (1 - _SIMILAR_BOUND) * len(names) - 1e-9)
        self._columns = [_ParameterColumn([each[name] for each in sets], lowest) for name in names]

    def bound(self, one: Ints, other: Ints) -> Floats:
        """Return an upper bound of the similarity of each pair, from the lengths alone."""
        total: Floats = np.zeros(one.size)
        for column in self._columns:
            total += column.bound(one, other)
        return total / len(self._columns)

    def scores(self, one: Ints, other: Ints) -> Floats:
        """Return the similarity of each pair; 0 for a pair that cannot reach the limit."""
        bounds = [column.bound(one, other) for column in self._columns]
        total: Floats = np.zeros(one.size)
        is_candidate = np.ones(one.size, dtype=bool)
        for number, column in enumerate(self._columns, 1):
            total[is_candidate] += column.scores(one[is_candidate], other[is_candidate])
            remaining = sum(bounds[number:], np.zeros(one.size))
            is_candidate &= (total + remaining) / len(bounds) >= _SIMILAR_BOUND
        total[~is_candidate] = 0.0
        return total / len(bounds)

    def matrix(self, rows: Ints, others: Ints) -> Floats:
        """Return the similarity of each of ``rows`` with each of ``others``."""
        total: Floats = np.zeros((rows.size, others.size))
        for column in self._columns:
            total += column.matrix(rows, others)
        return total / len(self._columns)


def _parts(length: float, lowest: float) -> list[slice]:
    """Return the parts of texts that are compared first.

    Args:
        length: Characters of the texts, on average.
        lowest: The similarity from which on a pair matters.
    """
    if length <= _LONG:
        return []
    words = [
        math.copysign(math.ceil(abs(each) * (1 - lowest) * length / _WORD), each) for each in _PARTS
    ]
    sizes = [int(each) * _WORD for each in words if abs(each) * _WORD < length]
    return [slice(size) if size > 0 else slice(size, None) for size in sizes]


class _ParameterColumn:
    """The values of one name; text similarities below ``lowest`` count as 0."""

    def __init__(self, values: Sequence[tuple[bool, str]], lowest: float) -> None:
        self._lowest = lowest
        codes: dict[tuple[bool, str], int] = {}
        self._codes = np.array([codes.setdefault(value, len(codes)) for value in values])
        self._is_text = np.array([is_text for is_text, _ in values])
        self._texts = np.array([truncate(text) for _, text in values], dtype=object)
        self._lengths = np.array([len(text) for _, text in values], dtype=np.float64)
        compared = np.minimum(self._lengths, MAX_COMPARED_CHARACTERS)
        self._parts = _parts(float(compared.mean()), lowest)

    def bound(self, one: Ints, other: Ints) -> Floats:
        """Return an upper bound of the similarity of each pair of values.

        1 for equal values, 0 if one is not a text, else computed from the lengths of the texts.
        """
        a, b = self._lengths[one], self._lengths[other]
        with np.errstate(invalid="ignore"):  # two empty texts are equal
            by_length = 2 * np.minimum(a, b) / (a + b)
        both = self._is_text[one] & self._is_text[other]
        by_text: Floats = np.where(both, by_length, 0.0)
        by_text[self._codes[one] == self._codes[other]] = 1.0
        return by_text

    def scores(self, one: Ints, other: Ints) -> Floats:
        """Return the similarity of each pair of values."""
        scores: Floats = (self._codes[one] == self._codes[other]).astype(np.float64)
        unequal = (scores == 0) & self._is_text[one] & self._is_text[other]
        if unequal.any():
            ratios = process.cpdist(
                self._texts[one[unequal]].tolist(),
                self._texts[other[unequal]].tolist(),
                scorer=fuzz.ratio,
                score_cutoff=100 * self._lowest,
                dtype=np.float64,
            )
            # The parts that are not compared may differ in length.
            scores[unequal] = np.minimum(ratios / 100, self.bound(one, other)[unequal])
        return scores

    def matrix(self, rows: Ints, others: Ints) -> Floats:
        """Return the similarity of each value of ``rows`` with each value of ``others``."""
        if self._parts and (may_be := self._may_be_similar(rows, others)) is not None:
            one, other = np.nonzero(may_be)
            found: Floats = np.zeros(may_be.shape)
            found[one, other] = self.scores(rows[one], others[other])
            return found
        scores: Floats = process.cdist(
            self._texts[rows].tolist(),
            self._texts[others].tolist(),
            scorer=fuzz.ratio,
            score_cutoff=100 * self._lowest,
            dtype=np.float64,
        )
        scores /= 100
        np.minimum(scores, self.bound(rows[:, None], others[None, :]), out=scores)
        scores[self._codes[rows][:, None] == self._codes[others][None, :]] = 1.0
        return scores

    def _may_be_similar(self, rows: Ints, others: Ints) -> npt.NDArray[np.bool_] | None:
        """Return False for the pairs that differ too much in one part of their texts.

        Parts that leave most pairs are not compared again; None if there is none that does.
        """
        while self._parts:
            may_be = self._reach(rows, others, self._parts[0])
            if may_be.mean() <= _MOST_LEFT:
                return may_be
            del self._parts[0]
        return None

    def _reach(self, rows: Ints, others: Ints, part: slice) -> npt.NDArray[np.bool_]:
        """Return whether pairs can reach the limit with ``part`` of their texts, one of the ends.

        ``ratio = 2 LCS / (a + b)`` with the longest common subsequence of texts of ``a`` and ``b``
        characters. Behind the matches within the first ``n`` characters of both, all are behind
        the first ``n`` of one of them: at most ``max(a, b) - n``. The same goes for the last ones.
        """
        a, b = (np.minimum(self._lengths[each], MAX_COMPARED_CHARACTERS) for each in (rows, others))
        common = process.cdist(
            [text[part] for text in self._texts[rows]],
            [text[part] for text in self._texts[others]],
            scorer=LCSseq.similarity,
            dtype=np.int32,
        )
        size = part.stop or -part.start
        at_most = common + np.maximum(np.maximum(a[:, None], b[None, :]) - size, 0)
        total = a[:, None] + b[None, :]
        may_be: npt.NDArray[np.bool_] = 2 * at_most >= self._lowest * total - 1e-6
        return may_be
