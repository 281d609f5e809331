"""Optional packages, asked for before work starts and not at its end."""

from importlib.util import find_spec

from nearkin.validation.extras import missing_extra

PACKAGES = {"images": ("Pillow", "PIL"), "plots": ("matplotlib", "matplotlib")}


def require_extras(what: str, *extras: str) -> None:
    """Raise ImportError if a package of these extras is not installed.

    Examples
    --------
    >>> require_extras("the demo", "images", "plots")
    """
    missing = [name for name in extras if find_spec(PACKAGES[name][1]) is None]
    if missing:
        packages = " and ".join(PACKAGES[name][0] for name in missing)
        raise missing_extra(what, packages, ",".join(missing))
