"""Numbers of pages: days, sessions over time, trends."""
