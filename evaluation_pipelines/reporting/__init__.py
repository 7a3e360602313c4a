"""Reporting: the comparison report, the analysts' database and the books of a day.

``publish`` writes the database, ``books`` accounts for every session and event.
"""
