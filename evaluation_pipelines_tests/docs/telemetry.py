"""The data on which the blocks of a document run; a comment in the document names it.

``<!-- data: genuine, landed -->`` puts the genuine sample into the landing folder,
``<!-- data: generated, published -->`` generates two weeks, builds everything and publishes it.
"""

import os
import re
import shutil
import tempfile
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path

from evaluation_pipelines.demo.generator import write_telemetry
from evaluation_pipelines.demo.samples import SAMPLES
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.stages.build import Build
from evaluation_pipelines.stages.ingest import Ingest
from evaluation_pipelines.stages.publish import publish_analytics
from evaluation_pipelines.stages.stores import Stores, open_stores

SEED, DAY_AFTER = 1, date(2026, 11, 21)
"""The team of the demo, at a time that stays the same."""

GENUINE = SAMPLES / "claude_code" / "logs.jsonl"

_MARK = re.compile(r"<!-- data: (?P<what>genuine, landed|generated, published) -->")
_MORNING = datetime(2026, 11, 22, 6, tzinfo=UTC)


def prepare(text: str, folder: Path) -> None:
    """Put the data that a document asks for into ``folder/data``; nothing where it asks none."""
    mark = _MARK.search(text)
    if mark is None:
        return
    data = folder / "data"
    if mark["what"] == "genuine, landed":
        (data / "landing").mkdir(parents=True)
        shutil.copyfile(GENUINE, data / "landing" / "agents.jsonl")
        return
    # Linked, not copied: a landing file is known by its inode.
    made = generated()
    shutil.copytree(made / "landing", data / "landing", copy_function=os.link)
    shutil.copytree(made / "lake", data / "lake", copy_function=os.link)
    shutil.copyfile(made / "ledger.db", data / "ledger.db")
    with _stores(data) as stores:
        publish_analytics(stores, _MORNING)


def generate(landing: Path) -> None:
    """Write the telemetry of the made-up team."""
    write_telemetry(landing, seed=SEED, end=DAY_AFTER)


def generated() -> Path:
    """Data folder with that telemetry, built at a fixed time; made once, not to be changed."""
    return Path(_made().name)


@cache
def _made() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    generate(Path(folder.name) / "landing")
    with _stores(Path(folder.name)) as stores:
        Ingest(stores, lambda: _MORNING).run()
        job = Build(stores, clock=lambda: _MORNING)
        job.run(job.pending_dates())
    return folder


def _stores(data_dir: Path) -> AbstractContextManager[Stores]:
    return open_stores(Settings(_env_file=None, data_dir=data_dir))
