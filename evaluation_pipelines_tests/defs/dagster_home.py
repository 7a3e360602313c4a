"""A DAGSTER_HOME with the configuration of the checkout."""

from pathlib import Path

_CONFIGURATION = Path(__file__).parents[2] / "dagster.yaml"


def dagster_home(folder: Path) -> Path:
    """Make ``folder`` a DAGSTER_HOME with its state inside, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    configuration = _CONFIGURATION.read_text(encoding="utf-8")
    assert "base_dir: var/dagster" in configuration
    inside = configuration.replace("base_dir: var/dagster", f"base_dir: {folder}/state")
    (folder / "dagster.yaml").write_text(inside, encoding="utf-8")
    return folder
