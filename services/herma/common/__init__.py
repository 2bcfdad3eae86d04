"""What every service shares and no domain owns.

Nothing in here knows a session, a tenant's rules or a tool.  Services import it; it imports only
generated stubs and libraries.
"""
