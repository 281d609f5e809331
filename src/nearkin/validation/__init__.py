"""Input validation, before anything is allocated or compiled code sees it."""
