"""``python -m nearkin``: the command line."""

from nearkin.cli import main

main()
