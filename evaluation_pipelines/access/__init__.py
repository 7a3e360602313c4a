"""Access: keys of the service, roles and organizations.

``key_ring`` keeps the keys, ``domain.keys`` decides what a role may see and do.
"""
