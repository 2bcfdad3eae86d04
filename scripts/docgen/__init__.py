"""What `docs/` holds that is generated: each module renders one document from the code."""
