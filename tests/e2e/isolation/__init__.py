"""Isolation, generated from the OpenAPI document and the protos: what is added later is covered too."""
