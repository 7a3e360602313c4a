"""How processor time grows with everything that has a size: flat or linear, or the curve bends."""

import math
from dataclasses import dataclass

from evaluation_pipelines_tests.benchmarks.measure import run_function, tell
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder

_FACTORS = (1, 4, 16)
_FLAT_FACTORS = (1, 2, 4)
_FLAT = 1.5
"""Largest growth of a flat curve when the size grows fourfold; a linear one would reach 4."""
_LINEAR = 1.5
"""Largest exponent of a linear curve: between 1, linear, and 2, quadratic."""
_NOISE_S = 0.05
"""Processor time that two runs of one size can differ by."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What grows, the smallest of its three sizes, and the function that measures one size."""

    what: str
    smallest: int
    function: str
    is_flat: bool = False

    @property
    def sizes(self) -> list[int]:
        """The three sizes, the smallest first."""
        factors = _FLAT_FACTORS if self.is_flat else _FACTORS
        return [self.smallest * factor for factor in factors]


CURVES = (
    Curve("events of one session: build", 16_000, "build_one_session"),
    Curve("sessions of a date: build", 500, "build_sessions"),
    Curve("dates before it: build of one new date", 20, "build_after_dates", is_flat=True),
    Curve("files in the landing folder: a look after a change", 625, "look_for_files"),
    Curve("people: comparison of two models", 200, "compare_people"),
    Curve("profiles that match: build of 500 sessions", 4, "build_with_profiles"),
    Curve("lines in quarantine: list of the newest", 2_000, "list_quarantine"),
    Curve("overrides: import", 250, "import_overrides"),
    Curve("overrides of a date: build", 1_000, "build_with_overrides"),
)


def run(options: Options) -> Section:
    """Every curve at three sizes, once more if it bends: the best of all rounds counts."""
    section = Section()
    for curve in CURVES:
        for _ in range(options.rounds):
            _measure(section, curve)
            names = [f"{curve.what}, {size}" for size in curve.sizes]
            found = outcome(curve, [section.best(name, "processor_seconds") for name in names])
            if found.met:
                break
        section.outcomes.append(found)
    return section


def _measure(section: Section, curve: Curve) -> None:
    for size in curve.sizes:
        with data_folder(name="curve") as folder:
            measured = run_function(f"curves_work:{curve.function}", folder=str(folder), size=size)
        taken = {"processor_seconds": measured.answer}
        section.rounds.setdefault(f"{curve.what}, {size}", []).append(taken)
    tell(f"  {curve.what}")


def outcome(curve: Curve, seconds: list[float]) -> Outcome:
    """Judge a curve by the processor seconds of its three sizes."""
    first, second, third = seconds
    if curve.is_flat:
        growth = third / first
        told, target, met = f"{growth:.2f}x", f"<= {_FLAT}x for 4x the size", growth <= _FLAT
    else:
        # What does not grow with the size is in no difference.
        steps = max(second - first, _NOISE_S), max(third - second, _NOISE_S)
        exponent = math.log(steps[1] / steps[0], 4)
        told, target, met = f"n^{exponent:.2f}", f"<= n^{_LINEAR}", exponent <= _LINEAR
    return Outcome(
        f"growth: {curve.what} ({curve.sizes[-1]} against {curve.sizes[0]})",
        f"{third:.2f} s",
        f"{first:.2f} s",
        told,
        target,
        met,
    )
