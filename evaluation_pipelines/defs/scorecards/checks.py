"""Calibration check: whether human and automatic scores agree."""

import dagster as dg

from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines.scorecards.audit_samples import calibration
from evaluation_pipelines.scorecards.domain.calibration import Agreement, AgreementEstimate
from evaluation_pipelines.storage.stores import Stores

_HEADINGS = (
    *("profile", "version", "sample", "n", "off by > 10"),
    *("bias", "mean error", "Spearman", "kappa"),
)


@dg.asset_check(
    asset=SCORECARDS.name,
    description="No profile is corrected repeatedly in the same direction.",
)
def profiles_are_calibrated(stores: dg.ResourceParam[Stores]) -> dg.AssetCheckResult:
    """Warn if the last five corrections of a profile version have the same direction."""
    agreed, streaks = calibration(stores)
    lasting = [each for each in streaks if each.needs_recalibration]
    found = "; ".join(
        f"{each.profile_id} version {each.profile_version}: the last {each.length} corrections "
        f"all made the score {'lower' if each.too_high else 'higher'}"
        for each in lasting
    )
    return dg.AssetCheckResult(
        passed=not lasting,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "expected": "corrections in both directions, or few of them",
            "found": found or "no profile version to recalibrate",
            "agreement, automatic minus human": dg.MetadataValue.md(
                markdown_table(_HEADINGS, [_row(each) for each in agreed])
            ),
        },
    )


def _row(each: Agreement) -> tuple[object, ...]:
    return (
        each.profile_id,
        each.profile_version,
        each.sample,
        each.n,
        _format_estimate(each.off),
        each.missing or _format_estimate(each.bias),
        *(_format_estimate(estimate) for estimate in (each.mae, each.spearman, each.kappa)),
    )


def _format_estimate(estimate: AgreementEstimate) -> str:
    if estimate.value is None:
        return "-"
    if estimate.interval is None:
        return f"{estimate.value:.2f}"
    low, high = estimate.interval
    return f"{estimate.value:.2f} ({low:.2f} to {high:.2f})"
