"""The terminal program: each command parses options, calls one function of a feature and prints.

``program`` lists the commands, ``output`` prints tables, ``conventions`` has the exit codes.
"""
