"""Compiled kernels and the threads that run them."""
