"""memory: what outlives sessions."""
