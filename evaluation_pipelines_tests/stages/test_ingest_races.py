"""Ingest when something happens between two of its steps, made to happen exactly there."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.adapters.landing import Landing, LandingFile, PassedOver
from evaluation_pipelines.adapters.lease_owner import new_owner
from evaluation_pipelines.domain.schemas import Table
from evaluation_pipelines.stages.ingest import Ingest, IngestReport
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.workplace import NOW, Workplace

DAY_S = 86_400


def prompts(*numbers: int) -> bytes:
    """One line a prompt, each of the same length."""
    return b"".join(line(claude("user_prompt", n, n=n + 100, x="y" * 200)) for n in numbers)


def landed_numbers(workplace: Workplace) -> list[int]:
    return [json.loads(text)["n"] - 100 for text in workplace.landed()["attributes"]]
