"""The file of own prices."""

from pathlib import Path

import yaml

from evaluation_pipelines.telemetry.domain.own_prices import (
    NO_OWN_PRICES,
    OwnPrices,
    parse_own_prices,
)

_MAX_BYTES = 1_000_000
# Most builds of PyYAML include the fast loader; both loaders read plain data only.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_own_prices(path: Path) -> OwnPrices:
    """Return the prices of a file, which need not exist, and what is wrong with it."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return NO_OWN_PRICES
    except OSError as error:
        return OwnPrices(faults=(f"{path} cannot be read: {error.strerror or error}",))
    if len(content) > _MAX_BYTES:
        return OwnPrices(faults=(f"{path} is larger than {_MAX_BYTES} bytes, the limit",))
    try:
        # Aliases are refused: with them a small file can expand to any size.
        events = yaml.parse(content, Loader=_LOADER)
        if any(isinstance(each, yaml.AliasEvent) for each in events):
            return OwnPrices(faults=(f"{path} has YAML aliases (*name); write out the values",))
        values = yaml.load(content, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return OwnPrices(faults=(f"{path} is not YAML: {error}",))
    return parse_own_prices(values, str(path))
