"""Roles, and what the caller of each may see and do."""
