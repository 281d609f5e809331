"""``python -m nearkin``: the command line."""

from nearkin.cli.app import main

if __name__ == "__main__":
    main()
