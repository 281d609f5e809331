"""Runs that a stranger can repeat: one small module each, whose docstring says what it costs."""
