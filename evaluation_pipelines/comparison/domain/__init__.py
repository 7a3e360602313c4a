"""Statistics over a frame of runs: differences, verdicts, gates, experiments, predictions."""
