"""The only SQL of session-authority.  Rows stop here: what leaves is a domain value."""
