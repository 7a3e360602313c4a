"""Price of requests in a batch."""

from dataclasses import dataclass

from evaluation_pipelines.judging.domain.budget.pricing import Pricing, Usage


@dataclass(frozen=True, slots=True)
class BatchPrice:
    """A price times the factor of the Batch API; implements ``Pricing``."""

    direct: Pricing
    factor: float

    def cost_usd(self, usage: Usage) -> float | None:
        """Return the cost of one request in US dollars; ``None`` if the price is unknown."""
        cost = self.direct.cost_usd(usage)
        return None if cost is None else cost * self.factor
