"""Prompts that carry a number, so that a test sees which of them were stored."""

import json

import polars as pl

from evaluation_pipelines_tests.world import claude, line


def prompts(first: int, last: int) -> bytes:
    """Return one line per prompt, one second apart, of about 600 bytes each."""
    return b"".join(line(claude("user_prompt", n, n=n, x="y" * 200)) for n in range(first, last))


def numbers(frame: pl.DataFrame) -> list[int]:
    return [json.loads(text)["n"] for text in frame["attributes"]]
