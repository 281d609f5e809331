"""Generators of cases, one module a kind."""
