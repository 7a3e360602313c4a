"""Ingest against DuckDB, chDB and parsers that only parse, and its memory by file size."""

import os

from evaluation_pipelines_tests.benchmarks.measure import (
    BenchmarkError,
    Measurement,
    run_function,
)
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.benchmarks.telemetry_file import telemetry_file

_LINES = {"orjson parse only": "orjson_parse", "simdjson parse only": "simdjson_parse"}
_SAME, _LESS = "DuckDB, the same work", "DuckDB, its columns alone"
_CHDB = "chDB, its columns alone"
_TENTH = "ingest, a tenth of the file"
_PEERS = {
    _SAME: "peer_duckdb:produce",
    _LESS: "peer_duckdb:produce_less",
    _CHDB: "peer_chdb:produce",
}


def run(options: Options) -> Section:
    """Ours and the peer that does the same in turn, each round; once what is only printed."""
    section, file = Section(), telemetry_file(options.size_mb)
    size = file.stat().st_size
    section.sizes["file_bytes"] = size
    for number in range(options.rounds):
        ours = _ingest(options.size_mb)
        section.add("ingest", ours)
        section.sizes["events"] = ours.answer["events"]
        for name, target in _PEERS.items():
            if number == 0 or name == _SAME:
                section.add(name, _produced(target, options, ours.answer["totals"]))
    for name, function in _LINES.items():
        section.add(name, run_function(f"parsers:{function}", source=str(file)))
    section.add(_TENTH, _ingest(options.size_mb // 10))
    section.outcomes = [*_outcomes(section, size / 1e6), _memory(section, options.size_mb)]
    return section


def _ingest(size_mb: int) -> Measurement:
    """Ingest the file of that size into a new lake; ``answer`` has the totals of what it wrote."""
    with data_folder([telemetry_file(size_mb)]) as folder:
        measured = run_function("ours:ingest", folder=str(folder))
        measured.answer["totals"] = _totals(measured)
        if measured.answer["bytes"] != telemetry_file(size_mb).stat().st_size:
            raise BenchmarkError("the ingest did not read the whole file")
    return measured


def _produced(target: str, options: Options, expected: object) -> Measurement:
    """One peer; what it wrote must be what the ingest wrote."""
    with data_folder() as folder:
        source = os.fspath(telemetry_file(options.size_mb))
        measured = run_function(
            target, source=source, folder=os.fspath(folder), threads=options.threads
        )
        found = _totals(measured)
    if found != expected:
        raise BenchmarkError(f"{target} wrote something else: {found}, the ingest {expected}")
    return measured


def _totals(measured: Measurement) -> object:
    return run_function("columns:totals", pattern=measured.answer["parquet"]).answer


def _outcomes(section: Section, size_mb: float) -> list[Outcome]:
    limits: dict[str, float | None] = {_SAME: 1.0, **dict.fromkeys((_LESS, _CHDB, *_LINES))}
    ours = section.best("ingest")
    outcomes = [
        _speed(section, name, size_mb, section.best(name) / ours, limit)
        for name, limit in limits.items()
    ]
    spent, of_peer = (section.best(name, "cpu_seconds") for name in ("ingest", _SAME))
    outcomes.append(
        Outcome(
            f"ingest, processor time, against {_SAME}",
            f"{spent:.1f} s",
            f"{of_peer:.1f} s",
            f"{of_peer / spent:.2f}x",
            "known",
            None,
        )
    )
    share = section.worst("ingest", "peak_mb") / section.worst(_CHDB, "peak_mb")
    outcomes.append(
        Outcome(
            "ingest, peak memory against chDB",
            f"{section.worst('ingest', 'peak_mb'):.0f} MB",
            f"{section.worst(_CHDB, 'peak_mb'):.0f} MB",
            f"{share:.2f}x",
            "<= 0.25x",
            share <= 0.25,
        )
    )
    return outcomes


def _memory(section: Section, size_mb: int) -> Outcome:
    small, large = (section.worst(name, "peak_mb") for name in (_TENTH, "ingest"))
    return Outcome(
        f"ingest, peak memory: {size_mb} MB against {size_mb // 10} MB",
        f"{large:.0f} MB",
        f"{small:.0f} MB",
        f"{large / small:.2f}x",
        "<= 400 MB",
        large <= 400,
    )


def _speed(
    section: Section, name: str, size_mb: float, ratio: float, limit: float | None
) -> Outcome:
    return Outcome(
        f"ingest against {name}",
        f"{size_mb / section.best('ingest'):.0f} MB/s",
        f"{size_mb / section.best(name):.0f} MB/s",
        f"{ratio:.2f}x",
        "known" if limit is None else f">= {limit}x",
        None if limit is None else ratio >= limit,
    )
