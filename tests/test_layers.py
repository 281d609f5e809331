"""How deep the package is: the longest chain of imports, as the sources have them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import nearkin

ROOT = Path(nearkin.__file__).parent
REPRODUCTION = "nearkin.reproduction"


def name_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run with the module: not those of functions, nor those of type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not for_types and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from statements(child)


def imported(tree: ast.Module, modules: set[str]) -> set[str]:
    found = set()
    for statement in statements(tree):
        for alias in statement.names:
            if isinstance(statement, ast.Import):
                found.add(alias.name)
            else:
                inner = f"{statement.module}.{alias.name}"
                found.add(inner if inner in modules else statement.module)
    return found & modules


def longest_chain(root: Path, ignored: str) -> list[str]:
    """The longest chain of modules of a package, each of which imports the next.

    The package's own module is left out, which imports everything for its users, and so are
    modules whose name starts with `ignored`.
    """
    paths = {name_of(path, root): path for path in root.rglob("*.py")}
    del paths[root.name]
    modules = set(paths)

    @cache
    def chain(name: str) -> tuple[str, ...]:
        tree = ast.parse(paths[name].read_text())
        below = (chain(other) for other in imported(tree, modules - {name}))
        return name, *max(below, key=len, default=())

    return list(max((chain(n) for n in sorted(modules) if not n.startswith(ignored)), key=len))


def test_the_product_is_at_most_twelve_imports_deep():
    chain = longest_chain(ROOT, ignored=REPRODUCTION)
    assert len(chain) <= 12, " imports ".join(chain)


def test_the_reproduction_adds_one():
    chain = longest_chain(ROOT, ignored="nothing")
    assert len(chain) <= 13, " imports ".join(chain)


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("from pack.a import x", True),
        ("import pack.a", True),
        ("class C:\n    from pack import a", True),
        ("try:\n    from pack import a\nexcept ImportError:\n    pass", True),
        ("def f():\n    from pack import a", False),
        ("if TYPE_CHECKING:\n    from pack import a", False),
        ("from packed import a", False),
    ],
)
def test_what_counts_as_an_import(tmp_path, text, deep):
    root = tmp_path / "pack"
    root.mkdir()
    (root / "__init__.py").write_text("from pack import b")
    (root / "a.py").write_text("")
    (root / "b.py").write_text(text)
    expected = ["pack.b", "pack.a"] if deep else 1
    chain = longest_chain(root, ignored="nothing")
    assert (chain if deep else len(chain)) == expected
