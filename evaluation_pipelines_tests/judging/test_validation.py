"""Validation runs against a scripted judge, and the labelled sessions that they need."""

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from evaluation_pipelines.judging import validation
from evaluation_pipelines.judging.domain import validation as labelled
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.rubric import FAILURE_TAGS
from evaluation_pipelines.judging.domain.prompt.transcript import build_transcript
from evaluation_pipelines.judging.domain.validation import (
    ASKED_AGAIN,
    METHODICAL,
    LabelledSession,
    figures,
)
