"""Calibration check: whether human and automatic scores agree."""

import dagster as dg

from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines.scorecards.audit_samples import calibration
from evaluation_pipelines.scorecards.domain.calibration import Agreement, AgreementEstimate
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.scorecards.recalibration import profile_leans
from evaluation_pipelines.storage.stores import Stores

_HEADINGS = (
    *("profile", "version", "sample", "n", "off by > 10"),
    *("bias", "mean error", "Spearman", "kappa"),
)


@dg.asset_check(
    asset=SCORECARDS.name,
    description="No profile is corrected in one direction beyond chance.",
)
def profiles_are_calibrated(stores: dg.ResourceParam[Stores]) -> dg.AssetCheckResult:
    """Warn if the corrections of a profile version lean one way beyond chance."""
    overrides = overrides_with_states(stores)
    notices = [each.notice for each in profile_leans(stores, overrides) if each.is_beyond_chance]
    return dg.AssetCheckResult(
        passed=not notices,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "expected": "corrections in both directions, or few of them",
            "found": "; ".join(notices) or "no profile version to recalibrate",
            "agreement, automatic minus human": dg.MetadataValue.md(
                markdown_table(_HEADINGS, [_row(each) for each in calibration(stores, overrides)])
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
