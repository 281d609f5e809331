"""Without what only Linux has everything still works, in a process where it is hidden.

This is no test on Windows or macOS: docs/install.md says that these are untested.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"}

WORK = """
import asyncio, contextlib, importlib, pkgutil, sys, tempfile, warnings
import faiss, joblib, numba, numpy as np, scipy, sklearn.model_selection, rich.progress, typer
import PIL.Image, elsewhere
with contextlib.suppress(ImportError):
    import fastapi, uvicorn
elsewhere.hide()
import nearkin

for module in pkgutil.walk_packages(nearkin.__path__, "nearkin."):
    if module.name != "nearkin.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:  # of an extra that is not installed
            assert missing.name not in elsewhere.HIDDEN_MODULES and "nearkin" not in missing.name

from samples import blobs
from nearkin import SLNE, SoftVotingKNN, load
from nearkin.cli.app import main
from nearkin.neighbors import nearest
from nearkin.validation.memory import available

assert available() is None
X, y = blobs()
warnings.simplefilter("error")
with tempfile.TemporaryDirectory() as place:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lists = nearest(X, 5, folder=f"{place}/near")[1]
        once = SLNE(max_epochs=2, random_state=0).fit(X, y, folder=f"{place}/work")
        again = SLNE(max_epochs=2, random_state=0).fit(X, y, folder=f"{place}/work")
    assert all("without locks" in str(w.message) for w in said), [str(w.message) for w in said]
    assert said and np.array_equal(once.matrix_, again.matrix_)
    model = SoftVotingKNN(SLNE(max_epochs=2), random_state=0).fit(X, y)
    model.save(f"{place}/model.safetensors")
    assert np.array_equal(load(f"{place}/model.safetensors").predict(X), model.predict(X))
    np.savez(f"{place}/rows.npz", X=X, y=y)
    sys.argv = ["nearkin", "train", f"{place}/rows.npz", "--sampling", "softmax",
                "--out", f"{place}/trained.safetensors"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    assert load(f"{place}/trained.safetensors").score(X, y) > 0.5
print("done")
"""


def test_work_goes_on_without_what_only_linux_has():
    paths = [ROOT / "src", ROOT / "tests" / "helpers"]
    code = f"import sys; sys.path[:0] = {[str(p) for p in paths]!r}\n{WORK}"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-3000:]
    assert child.stdout.endswith("done\n")


def imported(tree):
    """Names of the modules that the body of a module imports, not its functions."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def test_no_module_imports_what_other_systems_lack():
    for path in (ROOT / "src").rglob("*.py"):
        found = POSIX_MODULES.intersection(imported(ast.parse(path.read_text(encoding="utf-8"))))
        assert not found, f"{path} imports {found}"
