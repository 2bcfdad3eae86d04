"""The only SQL of memory."""
