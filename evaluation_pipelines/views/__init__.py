"""Lists, each made once: relations of stored and joined columns, and their renderings.

``sessions``, ``agents`` and ``tool_calls`` are relations, ``filters`` chooses rows, ``listing``
renders. Terminal, API, gateway, pages, reports and the analysts' database read the same.
"""
