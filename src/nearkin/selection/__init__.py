"""Every setting chosen on held-out training rows: candidates, hold-out, search."""

from nearkin.selection.options import Selection

__all__ = ["Selection"]
