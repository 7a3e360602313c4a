"""Books, the comparison report, charts, and facts of a session as data."""
