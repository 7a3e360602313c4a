"""Lists, each made once: relations of stored and joined columns, and their renderings.

Terminal, API, gateway, pages, reports and the analysts' database read the same relation.
"""
