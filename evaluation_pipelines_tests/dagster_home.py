"""A home of Dagster as users have it, anywhere on the disk."""

from pathlib import Path

_CONFIGURATION = Path(__file__).parents[1] / "dagster.yaml"


def dagster_home(folder: Path) -> Path:
    """Make a folder a DAGSTER_HOME configured as the checkout is, with its state inside."""
    folder.mkdir(parents=True, exist_ok=True)
    configuration = _CONFIGURATION.read_text(encoding="utf-8")
    assert "base_dir: var/dagster" in configuration
    inside = configuration.replace("base_dir: var/dagster", f"base_dir: {folder}/state")
    (folder / "dagster.yaml").write_text(inside, encoding="utf-8")
    return folder
