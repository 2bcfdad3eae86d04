"""The HTTP API, a module per noun."""
