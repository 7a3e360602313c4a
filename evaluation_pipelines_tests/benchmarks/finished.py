"""Parts that a run has finished: kept, so that ``--resume`` measures only the others."""

import json
from dataclasses import asdict
from pathlib import Path

from evaluation_pipelines.engine.work import program_version
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section
from evaluation_pipelines_tests.benchmarks.telemetry_file import cache_folder


def keep(name: str, section: Section, options: Options) -> None:
    """Keep what a part measured, with what it was measured of."""
    kept = {**_measured_of(options), "section": asdict(section)}
    _path(name).write_text(json.dumps(kept), encoding="utf-8")


def finished(name: str, options: Options) -> Section | None:
    """Return what this program gave in that part with these options, None if it did not run."""
    if not _path(name).exists():
        return None
    kept = json.loads(_path(name).read_text(encoding="utf-8"))
    section = kept.pop("section")
    if kept != _measured_of(options):
        return None
    outcomes = [Outcome(**outcome) for outcome in section.pop("outcomes")]
    return Section(**section, outcomes=outcomes)


def _measured_of(options: Options) -> dict[str, object]:
    return {"program": program_version(), "options": asdict(options)}


def _path(name: str) -> Path:
    folder = cache_folder() / "finished"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.json"
