"""``make bench``: the program against its peers, every contestant in a new process.

A run of all parts writes ``results.json`` and ``results.md``; some parts are only printed. What is
finished is kept: ``--resume`` continues a stopped run. The simulations of the statistics take
longer, run only when they are named, and write the tables of their documents; ``scale`` needs Ray,
and runs only when it is named.
"""

import argparse
import os
from time import perf_counter

from evaluation_pipelines_tests.benchmarks import (
    backfill,
    coverage,
    curves,
    estimators,
    finished,
    formulas,
    history,
    judge_run,
    large_dates,
    loading,
    one_session,
    pages,
    receiver,
    report,
    reputation,
    scale,
    service,
    speed,
    tool_reports,
    watch,
)
from evaluation_pipelines_tests.benchmarks.measure import tell
from evaluation_pipelines_tests.benchmarks.section import Options, Section

SECTIONS = {
    "ingest": speed.run,
    "history": history.run,
    "growth": curves.run,
    "loading": loading.run,
    "start": loading.commands,
    "formulas": formulas.run,
    "session": one_session.run,
    "judge-run": judge_run.run,
    "backfill": backfill.run,
    "large-dates": large_dates.run,
    "tools": tool_reports.run,
    "reputation": reputation.run,
    "receiver": receiver.run,
    "service": service.run,
    "pages": pages.run,
}
WHEN_NAMED = {
    "scale": scale.run,
    "coverage": coverage.run,
    "estimators": estimators.run,
    "watch": watch.run,
}


def main() -> None:
    """Run what was asked for, and print one table."""
    arguments = _arguments()
    options = Options(
        arguments.size_mb,
        arguments.rounds,
        os.cpu_count() or 1,
        arguments.sessions,
        arguments.days,
        arguments.sessions_a_day,
        arguments.histories,
    )
    sections: dict[str, Section] = {}
    for name in arguments.only:
        sections[name] = _section(name, options, arguments.resume)
    report.print_outcomes(
        [outcome for section in sections.values() for outcome in section.outcomes]
    )
    if list(sections) == list(SECTIONS):
        report.write(report.results(sections, options))


def _section(name: str, options: Options, may_resume: bool) -> Section:
    if may_resume and (section := finished.finished(name, options)):
        tell(f"{name}: kept from the run before")
        return section
    tell(f"{name}:")
    began = perf_counter()
    section = (SECTIONS.get(name) or WHEN_NAMED[name])(options)
    section.sizes["section_seconds"] = round(perf_counter() - began)
    tell(f"  {name} took {section.sizes['section_seconds']} s")
    finished.keep(name, section, options)
    return section


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(SECTIONS),
        help=f"parts, by comma: {', '.join((*SECTIONS, *WHEN_NAMED))}",
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep parts that a run of the same program finished"
    )
    parser.add_argument("--size-mb", type=int, default=1200, help="size of the large file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=1000, help="that are judged")
    parser.add_argument("--days", type=int, default=90, help="dates of the backfill")
    parser.add_argument("--sessions-a-day", type=int, default=1000, help="sessions a date of it")
    parser.add_argument("--histories", default="", help="of the watch: in names of those chosen")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - SECTIONS.keys() - WHEN_NAMED.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    main()
