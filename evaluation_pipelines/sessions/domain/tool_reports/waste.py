"""Wasted calls: calls whose results were used by nothing later in the session."""

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
