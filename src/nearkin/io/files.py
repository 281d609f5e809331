"""Files that are given to be read."""

import os
import stat
from pathlib import Path

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
          stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}  # fmt: skip


def check_file(path: str | os.PathLike[str], expected: str) -> None:
    """Refuse what is no regular file: to open a pipe would wait for a writer, maybe for ever."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{path} does not exist; give {expected}") from None
    except ValueError:  # a null byte
        raise FileNotFoundError(f"{os.fspath(path)!r} is no path; give {expected}") from None
    if kind != stat.S_IFREG:
        found = _KINDS.get(kind, "not a file")
        raise ValueError(f"{path} is {found}, not a regular file; give {expected}")
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:  # of a failed read, which does not say of which file
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None


def read_lines(path: str | os.PathLike[str], expected: str) -> list[str]:
    """The lines of a text file in UTF-8; only line feeds and carriage returns end a line."""
    check_file(path, expected)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        return text.removesuffix("\n").split("\n") if text else []
    except UnicodeDecodeError as reason:
        raise ValueError(
            f"{path} is not a text file in UTF-8 ({reason}); give {expected}"
        ) from None
