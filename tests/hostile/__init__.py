"""Hostile inputs, damaged files, kills and full disks: ``python -m hostile``, run in ``tests``.

The public surface is found by introspection (`surface`) and attacked by generated cases (`cases`),
each in a forked child with limits (`runner`); every outcome is judged (`judge`) and counted
(`table`).
"""
