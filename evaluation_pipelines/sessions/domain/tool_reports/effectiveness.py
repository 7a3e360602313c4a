"""Effectiveness of a tool, 0 to 100, and the calls, tokens and money that were wasted."""

import polars as pl

MAX_RESULT_CHARACTERS = 20_000
"""Length of the beginning of a text that is searched for tokens."""
MIN_TOKEN_CHARACTERS = 6

# Words, and names with dots: "test_app.py" contains the tokens "test_app" and "test_app.py".
_TOKENS = rf"\w{{{MIN_TOKEN_CHARACTERS},}}"
_DOTTED = r"\w+(?:\.\w+)+"

TRACED = pl.Schema(
    {
        "window_no": pl.Int64(),
        "call": pl.Int64(),
        "new_tokens": pl.Int64(),
        "is_used": pl.Boolean(),
    }
)


def traced_results(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return whether the results of calls were used later, by the tokens that were new in them.

    A token is a word of at least six letters, digits or underscores, or such a name with dots;
    case is ignored. It is new in a result if no earlier text of the session (prompt, reply,
    parameters, result) and no parameter of the call itself contains it. It is used if later
    parameters or a later reply contain it.

    Args:
        rows: ``TOOL_CALLS``: calls, prompts and replies.
        calls: Calls from ``numbered_calls``.

    Returns:
        ``TRACED``: one row per call that did not fail and whose logged result has a new token.
        Calls that changed something are left out: the change itself is their use.
    """
    candidates = calls.filter(
        pl.col("outcome") != "failed", "has_content", ~pl.col("changes")
    ).select("window_no", "call", "session_no", "position")
    texts = rows.join(candidates, on="session_no", how="semi")
    tokens = pl.concat([_tokens(texts, "parameters"), _tokens(texts, "said")])
    seen = tokens.group_by("session_no", "token").agg(
        first_position=pl.min("position"),
        last_use=pl.col("position").filter(pl.col("source") == "use").max(),
    )
    used_here = tokens.filter(source="use").select("session_no", "position", "token")
    return (
        tokens.filter(source="result")
        .join(candidates, on=["session_no", "position"])
        .join(used_here, on=["session_no", "position", "token"], how="anti")
        .join(seen, on=["session_no", "token"])
        .filter(pl.col("first_position") == pl.col("position"))
        .group_by("window_no", "call")
        .agg(
            new_tokens=pl.len().cast(pl.Int64),
            is_used=(pl.col("last_use") > pl.col("position")).fill_null(value=False).any(),
        )
        .sort("window_no", "call")
        .select(TRACED.names())
    )


def _tokens(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return the distinct tokens of each text; ``source`` is ``use``, ``result`` or ``prompt``."""
    text = pl.col(column).str.slice(0, MAX_RESULT_CHARACTERS).str.to_lowercase()
    # Replies and parameters use earlier results; prompts do not.
    use = (pl.col("kind") == "reply") | pl.lit(column == "parameters")
    source = (
        pl.when(use)
        .then(pl.lit("use"))
        .when(pl.col("kind") == "call")
        .then(pl.lit("result"))
        .otherwise(pl.lit("prompt"))
    )
    return (
        rows.filter(pl.col(column).is_not_null())
        .select(
            "session_no",
            "position",
            source=source,
            token=pl.concat_list(
                text.str.extract_all(_TOKENS), text.str.extract_all(_DOTTED)
            ).list.unique(),
        )
        .explode("token")
        .filter(pl.col("token").str.len_chars() >= MIN_TOKEN_CHARACTERS)
    )


FLAGGED_BELOW = 60.0
BYTES_PER_TOKEN = 4
"""Rule of thumb for code and English."""

FAILED = 1.0
WASTED = 1.0
CORRECTED = 0.5
REPEATED = 0.5


def penalty() -> pl.Expr:
    """Return the penalty of a call, 0 to 1: that of its worst class.

    Reads ``outcome`` and ``is_corrected``, ``is_wasted``, ``is_repeated``; null is left out. A call
    of unknown outcome is in no total and has none.
    """
    failed = pl.col("outcome") == "failed"
    worst = pl.max_horizontal(
        pl.when(failed & pl.col("is_corrected").fill_null(value=False))
        .then(CORRECTED)
        .when(failed)
        .then(FAILED)
        .otherwise(0.0),
        pl.col("is_wasted").fill_null(value=False) * WASTED,
        pl.col("is_repeated").fill_null(value=False) * REPEATED,
    )
    return pl.when(pl.col("outcome") != "unknown").then(worst).otherwise(0.0).alias("penalty")


def effectiveness_score() -> pl.Expr:
    """Return ``100 * (1 - lost_calls / total_calls)``, 0 to 100; null without a call."""
    total = pl.col("total_calls")
    score = pl.when(total > 0).then(100 * (1 - pl.col("lost_calls") / total))
    return score.alias("effectiveness_score")


def is_flagged() -> pl.Expr:
    """Return whether the score is below 60, rounded to nine decimals to remove float noise."""
    return (pl.col("effectiveness_score").round(9) < FLAGGED_BELOW).alias("is_flagged")


def lost_tokens() -> pl.Expr:
    """Return the tokens in the results of lost calls: bytes / 4 times the penalty of each call.

    Null if the size of one of them is unknown. This is a lower bound of what they cost: a model
    reads a result again with every later request, which is not included.
    """
    is_lost = pl.col("penalty") > 0
    is_known = (pl.col("returned_bytes").is_not_null() | ~is_lost).all()
    tokens = (pl.col("returned_bytes") * pl.col("penalty")).filter(is_lost).sum() / BYTES_PER_TOKEN
    return pl.when(is_known).then(tokens).alias("lost_tokens")


def lost_usd() -> pl.Expr:
    """Return the cost of ``lost_tokens`` at the mean price of a token of their session, in USD.

    Null if cost or tokens are unknown, or if all lost calls of a session have more tokens than its
    requests: not all were read or reported, and the loss would exceed the cost of the session.
    Reads ``window_no``, and ``cost_usd`` and ``total_tokens`` of the session.
    """
    tokens, total = pl.col("lost_tokens"), pl.col("total_tokens")
    is_part = total >= tokens.sum().over("window_no")
    price = pl.when(total > 0, is_part).then(pl.col("cost_usd") / total)
    return (tokens * price).alias("lost_usd")


def basis() -> pl.Expr:
    """Return what the score counts and what it cannot count, in words.

    Reads ``total_calls``, ``calls_with_parameters``, ``tools_ok``, ``results_logged``,
    ``repeated_calls``, ``wasted_calls``, ``is_cut_short``.
    """
    total, known = pl.col("total_calls"), pl.col("calls_with_parameters")
    ok, results = pl.col("tools_ok"), pl.col("results_logged")
    parameters = (
        pl.when(known == 0)
        .then(pl.lit("unknown: repeated, corrected, loops (no parameters logged)"))
        .when(known < total)
        .then(pl.format("parameters of {} of {} calls", known, total))
    )
    traced = (
        pl.when(results == 0)
        .then(pl.lit("unknown: wasted (no results logged)"))
        .when(pl.col("wasted_calls").is_null())
        .then(pl.lit("unknown: wasted (replies not logged)"))
        .when(results < ok)
        .then(pl.format("results of {} of {} calls", results, ok))
    )
    counted = pl.concat_str(
        pl.lit("failed"),
        pl.when(known > 0).then(pl.lit("corrected, repeated")),
        pl.when(pl.col("wasted_calls").is_not_null()).then(pl.lit("wasted")),
        separator=", ",
        ignore_nulls=True,
    )
    cut = pl.when("is_cut_short").then(pl.lit("long or many parameters compared in part"))
    return pl.concat_str(counted, parameters, traced, cut, separator="; ", ignore_nulls=True).alias(
        "basis"
    )


def unknown() -> pl.Expr:
    """Return the classes that are unknown; reads ``calls_with_parameters``, ``wasted_calls``."""
    no_parameters = pl.col("calls_with_parameters") == 0
    names = [
        pl.when(no_parameters).then(pl.lit("corrected")),
        pl.when(no_parameters).then(pl.lit("loops")),
        pl.when(no_parameters).then(pl.lit("repeated")),
        pl.when(pl.col("wasted_calls").is_null()).then(pl.lit("wasted")),
    ]
    return pl.concat_list(names).list.drop_nulls().alias("unknown")
