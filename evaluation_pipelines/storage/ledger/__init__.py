"""The ledger: its database, tables and migrations, and what no feature has alone.

That is the manifest of the lake, the queue of dates to build, and the events for other programs.
Queries of other tables are in the folder ``ledger`` of their feature.
"""
