"""CSV as programs print it: texts from telemetry are no formulas in a spreadsheet."""

import polars as pl

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def no_formula(text: str) -> str:
    """A text, with an apostrophe in front if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_of(frame: pl.DataFrame) -> str:
    """A heading and one line a row; unknown is empty. Texts are no formulas, numbers stay."""
    texts = pl.selectors.string()
    return frame.with_columns(
        texts.map_elements(no_formula, return_dtype=pl.String, skip_nulls=True)
    ).write_csv()
