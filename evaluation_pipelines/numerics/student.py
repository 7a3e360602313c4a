"""Quantiles and tails of Student's t, and quantiles of the normal distribution."""

LEVEL = 0.95
"""Confidence level of every interval."""


def t_quantile(freedom: float, alpha: float = 1 - LEVEL) -> float:
    """Return the ``1 - alpha / 2`` quantile of Student's t: by default the 97.5% one."""
    from scipy.special import stdtrit  # takes a while to import

    return float(stdtrit(freedom, 1 - alpha / 2))


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    from scipy.special import ndtri  # a tenth of the time that scipy.stats takes

    return float(ndtri(probability))


def two_sided_p(value: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of ``value`` under Student's t."""
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(value) / error))
