"""Drawing of anchor sessions with known probabilities, stratified by label and model.

A simple random sample of each stratum: its sessions are ordered by a hash of their key and the id
of the change, and the first ones are drawn. The order never changes, so a session that cannot be an
anchor is replaced by the next one of its stratum.
"""

import hashlib
from collections.abc import Mapping

import polars as pl

from evaluation_pipelines.judge_changes.domain.judge_change import ANCHORS, STRATUM, Stratum
from evaluation_pipelines.schemas import SESSION_KEY

_LEAST_PER_STRATUM = 2


def draw(frame: pl.DataFrame, change_id: str, wanted: int = ANCHORS) -> pl.DataFrame:
    """Draw the anchors of a change: all sessions if there are at most ``wanted``.

    Args:
        frame: SESSION_KEY and STRATUM of the sessions to draw from, each once.
        change_id: The change.
        wanted: Number of anchors.

    Returns:
        The drawn rows with ``stratum_sessions``, ``stratum_anchors``, and ``place``: the place in
        the random order of the stratum, from 0.
    """
    ordered = _ordered(frame, change_id).with_columns(
        stratum_sessions=pl.len().over(STRATUM), place=pl.int_range(pl.len()).over(STRATUM)
    )
    sizes = {row[:2]: row[2] for row in ordered.select(*STRATUM, "stratum_sessions").iter_rows()}
    rows = [(*stratum, number) for stratum, number in allocate(sizes, wanted).items()]
    schema = {name: frame.schema[name] for name in STRATUM} | {"stratum_anchors": pl.Int64()}
    chosen = pl.DataFrame(rows, schema, orient="row")
    with_numbers = ordered.join(chosen, on=STRATUM, nulls_equal=True, maintain_order="left")
    return with_numbers.filter(pl.col("place") < pl.col("stratum_anchors"))


def replacements(anchors: pl.DataFrame, frame: pl.DataFrame, change_id: str) -> pl.DataFrame:
    """Return the next session of the stratum for each anchor that was replaced; some may be left.

    Args:
        anchors: All anchors of the change so far with ``replaced_because``.
        frame: The sessions of the dates that the anchors were drawn from, as they are now.
        change_id: The change.

    Returns:
        As ``draw``.
    """
    is_live = pl.col("replaced_because").is_null()
    strata = anchors.group_by(STRATUM).agg(
        pl.col("stratum_sessions", "stratum_anchors").first(),
        last=pl.col("place").max(),
        missing=pl.col("stratum_anchors").first().cast(pl.Int64) - is_live.sum().cast(pl.Int64),
    )
    rest = _ordered(frame.join(anchors, on=SESSION_KEY, how="anti"), change_id)
    rest = rest.join(strata, on=STRATUM, nulls_equal=True, maintain_order="left")
    at = pl.int_range(pl.len()).over(STRATUM)
    next_ones = rest.filter(at < pl.col("missing"))
    return next_ones.with_columns(place=pl.col("last") + 1 + at).drop("last", "missing")


def allocate(sizes: Mapping[Stratum, int], wanted: int) -> dict[Stratum, int]:
    """Return the number of anchors of each stratum, in proportion to its sessions.

    Each stratum has at least two if it has as many sessions; the largest remainders are rounded up.
    """
    total = sum(sizes.values())
    if total <= wanted:
        return dict(sizes)
    shares = {name: size * wanted / total for name, size in sizes.items()}
    least = {name: min(size, _LEAST_PER_STRATUM) for name, size in sizes.items()}
    chosen = {name: max(int(shares[name]), least[name]) for name in sizes}
    by_remainder = sorted(
        sizes, key=lambda name: (int(shares[name]) - shares[name], name[0], name[1] or "")
    )
    rounded_down = [name for name in by_remainder if chosen[name] < shares[name]]
    for name in rounded_down[: max(wanted - sum(chosen.values()), 0)]:
        chosen[name] += 1
    return chosen


def _ordered(frame: pl.DataFrame, change_id: str) -> pl.DataFrame:
    """Return sessions by stratum, in the random order of the change."""
    positions = [
        hashlib.sha256("\0".join((change_id, *key)).encode()).digest()
        for key in frame.select(SESSION_KEY).iter_rows()
    ]
    numbered = frame.with_columns(_position=pl.Series(positions, dtype=pl.Binary))
    return numbered.sort(*STRATUM, "_position").drop("_position")
