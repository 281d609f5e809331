"""Optional packages, asked for before work starts and not at its end."""

from importlib.util import find_spec

_PACKAGES = {"images": ("Pillow", "PIL"), "plots": ("matplotlib", "matplotlib")}


def require_extras(what: str, *extras: str) -> None:
    """Raise ImportError if a package of these extras is not installed.

    Examples
    --------
    >>> require_extras("the demo", "images", "plots")
    """
    missing = [name for name in extras if find_spec(_PACKAGES[name][1]) is None]
    if missing:
        packages = " and ".join(_PACKAGES[name][0] for name in missing)
        raise ImportError(f"{what} needs {packages}: pip install 'nearkin[{','.join(missing)}]'")
