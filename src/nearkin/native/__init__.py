"""Compiled kernels and the threads around them."""
