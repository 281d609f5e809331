import subprocess
import sys
from pathlib import Path

NEARKIN = Path(sys.executable).parent / "nearkin"


def nearkin(*arguments, **options):
    return subprocess.run([NEARKIN, *arguments], capture_output=True, text=True, **options)


def test_help_and_version():
    assert "demo" in nearkin("--help").stdout
    assert nearkin("--version").stdout.strip().count(".") == 2


def test_import_and_help_load_nothing_heavy():
    heavy = "{'numba', 'scipy', 'sklearn', 'faiss'}"
    code = f"import sys, nearkin, nearkin.cli; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_demo(tmp_path):
    result = nearkin("demo", "--out", str(tmp_path / "demo"))
    assert result.returncode == 0, result.stderr
    assert "SL-NE, hardest" in result.stdout
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<img") > 100
    assert "linear SVM" in page
