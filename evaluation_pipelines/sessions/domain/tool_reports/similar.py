"""Which of many parameter sets are similar, without comparing every pair of all.

Equal ones are the same key already. The others are compared only with those before them in the
same block that have the same names, at most ``LOOK_BACK`` of them: neighbour by neighbour over
whole columns, and only as long as a pair can still reach the limit.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from rapidfuzz import fuzz, process

from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    LONGEST_TEXT,
    SIMILAR,
    Parameters,
    cut,
    is_similar,
    similarity,
)

LOOK_BACK = 500
"""A parameter set is compared with so many different ones before it in its block."""

_CROWDED = 64
"""A block with more different sets is compared by itself, all with all in stripes."""
_STRIPE = 512
_NAMES_WORTH_A_GAP = 9
"""Nine names in common and one missing can still be 0.9 similar, fewer cannot."""
_ALMOST = SIMILAR - 1e-9
_PAIRS = pl.Schema(
    {"block": pl.Int64(), "key": pl.Int64(), "before": pl.Int64(), "score": pl.Float64()}
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def similar_pairs(
    members: pl.DataFrame, parameters: Mapping[int, Parameters]
) -> tuple[pl.DataFrame, pl.Series]:
    """Pairs of one block that are similar, and the blocks in which not all was compared.

    Args:
        members: ``block``, ``key``, ``rank``: different keys of a block in their order.
        parameters: Key -> what it stands for.

    Returns:
        ``block``, ``key``, ``before`` (the key of lower rank) and ``score``, their similarity; and
        the blocks with more sets of the same names than are looked back on, or with a text that
        was cut.
    """
    alone = pl.len().over("block") == 1
    shaped = _with_shapes(members.filter(~alone), parameters)
    alike = shaped.filter(pl.len().over("block", "shape") > 1).sort("shape", "block", "rank")
    found = [_PAIRS.to_frame(), _across_shapes(shaped, parameters)]
    is_crowded = pl.len().over("block", "shape") > _CROWDED
    for group in alike.filter(~is_crowded).partition_by("shape"):
        found += _of_small_blocks(group, parameters)
    for group in alike.filter(is_crowded).partition_by("shape", "block"):
        found += _of_large_block(group, parameters)
    too_many = pl.len().over("block", "shape") > LOOK_BACK + 1
    return pl.concat(found), alike.filter(too_many | pl.col("is_long"))["block"].unique()


def _with_shapes(members: pl.DataFrame, parameters: Mapping[int, Parameters]) -> pl.DataFrame:
    """The members with a number for the names each has, and whether its texts are long."""
    numbers: dict[tuple[str, ...], int] = {}
    keys = members["key"].unique(maintain_order=True).to_list()
    rows = [
        (
            key,
            numbers.setdefault(tuple(sorted(parameters[key])), len(numbers)),
            sum(len(text) for _, text in parameters[key].values()) > LONGEST_TEXT,
        )
        for key in keys
    ]
    schema = {"key": pl.Int64, "shape": pl.Int64, "is_long": pl.Boolean}
    shapes = pl.DataFrame(rows, schema=schema, orient="row")
    return members.join(shapes, on="key", how="left", maintain_order="left")


def _of_small_blocks(
    group: pl.DataFrame, parameters: Mapping[int, Parameters]
) -> list[pl.DataFrame]:
    """Similar pairs among sets with the same names; rows are sorted by block and rank.

    All blocks at once: each set with its neighbour, then with the one before that, and so on.
    """
    blocks, keys = group["block"].to_numpy(), group["key"].to_numpy()
    sets = _Columns([parameters[key] for key in keys.tolist()])
    found = []
    for lag in range(1, min(LOOK_BACK, group.height - 1) + 1):
        later = np.flatnonzero(blocks[lag:] == blocks[:-lag]) + lag
        if not later.size:
            break
        later = later[sets.bound(later, later - lag) >= _ALMOST]
        scores = sets.scores(later, later - lag)
        kept = np.round(scores, 9) >= SIMILAR
        later, scores = later[kept], scores[kept]
        found.append(_pairs(blocks[later], keys[later], keys[later - lag], scores))
    return found


def _of_large_block(
    block: pl.DataFrame, parameters: Mapping[int, Parameters]
) -> list[pl.DataFrame]:
    """Similar pairs among many sets of one block with the same names; rows are sorted by rank."""
    keys = block["key"].to_numpy()
    sets = _Columns([parameters[key] for key in keys.tolist()])
    found = []
    for start in range(0, keys.size, _STRIPE):
        rows = np.arange(start, min(start + _STRIPE, keys.size))
        before = np.arange(max(0, start - LOOK_BACK), rows[-1] + 1)
        scores = sets.matrix(rows, before)
        distance = rows[:, None] - before[None, :]
        kept = (distance > 0) & (distance <= LOOK_BACK) & (np.round(scores, 9) >= SIMILAR)
        one, other = np.nonzero(kept)
        blocks = np.full(one.size, block["block"][0])
        found.append(_pairs(blocks, keys[rows[one]], keys[before[other]], scores[one, other]))
    return found


def _pairs(blocks: Ints, keys: Ints, before: Ints, scores: Floats) -> pl.DataFrame:
    columns = zip(_PAIRS, (blocks, keys, before, scores), strict=True)
    return pl.DataFrame(dict(columns), schema=_PAIRS)


def _across_shapes(shaped: pl.DataFrame, parameters: Mapping[int, Parameters]) -> pl.DataFrame:
    """Similar pairs of which one lacks names: possible only where there are many names."""
    many = [key for key in shaped["key"].unique() if len(parameters[key]) >= _NAMES_WORTH_A_GAP]
    rows = []
    wide = shaped.filter(pl.col("key").is_in(many)).sort("block", "rank")
    for block in wide.partition_by("block"):
        keys, shapes = block["key"].to_list(), block["shape"].to_list()
        for place, key in enumerate(keys):
            for earlier in range(max(0, place - LOOK_BACK), place):
                if shapes[earlier] != shapes[place]:
                    score = similarity(parameters[key], parameters[keys[earlier]])
                    if is_similar(score):
                        rows.append((block["block"][0], key, keys[earlier], score))
    return pl.DataFrame(rows, schema=_PAIRS, orient="row")


class _Columns:
    """Parameter sets with the same names, column by column."""

    def __init__(self, sets: Sequence[Parameters]) -> None:
        names = sorted(sets[0])
        # Below it a text drags the mean down too far, even if all others are equal.
        lowest = max(0.0, 1 - (1 - _ALMOST) * len(names) - 1e-9)
        self._columns = [_Column([each[name] for each in sets], lowest) for name in names]

    def bound(self, one: Ints, other: Ints) -> Floats:
        """What the similarity of each pair cannot exceed, by lengths alone."""
        total: Floats = np.zeros(one.size)
        for column in self._columns:
            total += column.bound(one, other)
        return total / len(self._columns)

    def scores(self, one: Ints, other: Ints) -> Floats:
        """Similarity of each pair; 0 where it turned out too low on the way."""
        bounds = [column.bound(one, other) for column in self._columns]
        total: Floats = np.zeros(one.size)
        alive = np.ones(one.size, dtype=bool)
        for place, column in enumerate(self._columns):
            total[alive] += column.scores(one[alive], other[alive])
            left = sum(bounds[place + 1 :], np.zeros(one.size))
            alive &= (total + left) / len(bounds) >= _ALMOST
        total[~alive] = 0.0
        return total / len(bounds)

    def matrix(self, rows: Ints, others: Ints) -> Floats:
        """Similarity of each of some sets with each of others."""
        total: Floats = np.zeros((rows.size, others.size))
        for column in self._columns:
            total += column.matrix(rows, others)
        return total / len(self._columns)


class _Column:
    """The values of one name; a similarity of texts below ``lowest`` is taken for 0."""

    def __init__(self, values: Sequence[tuple[bool, str]], lowest: float) -> None:
        self._lowest = lowest
        codes: dict[tuple[bool, str], int] = {}
        self._codes = np.array([codes.setdefault(value, len(codes)) for value in values])
        self._is_text = np.array([is_text for is_text, _ in values])
        self._texts = np.array([cut(text) for _, text in values], dtype=object)
        self._lengths = np.array([len(text) for _, text in values], dtype=np.float64)

    def bound(self, one: Ints, other: Ints) -> Floats:
        """1 for equal values, 0 where one is no text, else by the lengths of the texts."""
        a, b = self._lengths[one], self._lengths[other]
        with np.errstate(invalid="ignore"):  # two empty texts are equal
            by_length = 2 * np.minimum(a, b) / (a + b)
        both = self._is_text[one] & self._is_text[other]
        by_text: Floats = np.where(both, by_length, 0.0)
        by_text[self._codes[one] == self._codes[other]] = 1.0
        return by_text

    def scores(self, one: Ints, other: Ints) -> Floats:
        """Similarity of each pair of values."""
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
            # What was cut out may differ in length.
            scores[unequal] = np.minimum(ratios / 100, self.bound(one, other)[unequal])
        return scores

    def matrix(self, rows: Ints, others: Ints) -> Floats:
        """Similarity of the value of each of some sets with that of each of others."""
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
