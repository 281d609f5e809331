"""Packages that only some of the work needs: they are extras of the installation."""


def missing_extra(what: str, package: str, extra: str) -> ImportError:
    """The error for a package that is not installed: which extra has it, and how to get that.

    The second command is for a clone, which needs no package index that knows nearkin.

    Examples
    --------
    >>> print(missing_extra("a report", "matplotlib", "plots"))
    a report needs matplotlib: pip install 'nearkin[plots]', or in a clone pip install '.[plots]'
    """
    return ImportError(
        f"{what} needs {package}: pip install 'nearkin[{extra}]', "
        f"or in a clone pip install '.[{extra}]'"
    )
