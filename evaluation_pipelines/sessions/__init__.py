"""Sessions: session windows, their performance and tool reports.

``session_tables`` builds the daily tables; ``find`` opens one session by its name.
"""
