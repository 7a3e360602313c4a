"""Wasted calls: what they brought to light was used by nothing that came after."""

import polars as pl

LONGEST_RESULT = 20_000
"""Letters of a text in which tokens are looked for."""
TOKEN_LETTERS = 6

_SESSION = ["organization_id", "session_id"]
# Words, and names with dots in them: "test_app.py" is "test_app" and "test_app.py".
_TOKENS = rf"\w{{{TOKEN_LETTERS},}}"
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
    """Which results were used later: by the tokens that were new in them.

    A token is a word of at least six letters, digits or underscores, or such a name with dots,
    whatever its case. It is new in a result if no earlier text of the session (prompt, reply,
    parameters, result) and not the call's own parameters hold it; it is used if later parameters
    or a later reply do.

    Args:
        rows: ``TOOL_CALLS``: calls, prompts and replies.
        calls: As ``numbered_calls`` gives them.

    Returns:
        ``TRACED``: one row per successful call whose result was logged and holds something new,
        without those that changed something: what these did is their use.
    """
    judged = calls.filter(pl.col("outcome") == "ok", "has_content", ~pl.col("changes")).select(
        "window_no", "call", *_SESSION, "position"
    )
    told = rows.join(judged, on=_SESSION, how="semi")
    tokens = pl.concat([_tokens(told, "parameters"), _tokens(told, "said")])
    seen = tokens.group_by(*_SESSION, "token").agg(
        first_position=pl.min("position"),
        last_use=pl.col("position").filter(pl.col("source") == "use").max(),
    )
    own = tokens.filter(source="use").select(*_SESSION, "position", "token")
    return (
        tokens.filter(source="result")
        .join(judged, on=[*_SESSION, "position"])
        .join(own, on=[*_SESSION, "position", "token"], how="anti")
        .join(seen, on=[*_SESSION, "token"])
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
    """The different tokens of each text; ``source`` is ``use``, ``result`` or ``prompt``."""
    text = pl.col(column).str.slice(0, LONGEST_RESULT).str.to_lowercase()
    # What was said as a reply, and all parameters, use what was known; a prompt does not.
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
            *_SESSION,
            "position",
            source=source,
            token=pl.concat_list(
                text.str.extract_all(_TOKENS), text.str.extract_all(_DOTTED)
            ).list.unique(),
        )
        .explode("token")
        .filter(pl.col("token").str.len_chars() >= TOKEN_LETTERS)
    )
