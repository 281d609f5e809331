"""A model over HTTP: a search page and a JSON service; ``nearkin serve`` starts it.

``engine`` answers questions about a loaded model, ``service`` and ``routes`` speak HTTP, ``guard``
and ``limits`` keep out what should not come in, ``batching`` searches for those who wait together,
``reload`` puts a new model in place.
"""
