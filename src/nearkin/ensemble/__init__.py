"""SL-DE (Section 3): projections, members and their joint refinement."""
