"""``python -m nearkin``: the command line."""

from nearkin.cli import main

if __name__ == "__main__":
    main()
