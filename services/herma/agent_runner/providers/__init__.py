"""Ways to a model."""
