"""What the README shows can be pasted."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import normalize

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def pasted(tmp_path_factory):
    """What the first two snippets leave behind."""
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("readme"))
        for snippet in snippets[:2]:
            exec(compile(snippet, "README.md", "exec"), names)
    return names


def test_the_model_is_as_good_as_it_says(pasted):
    told = re.search(r"model\.score\(Q, truth\)  # ([\d.]+)", README.read_text(encoding="utf-8"))
    assert pasted["model"].score(pasted["Q"], pasted["truth"]) == pytest.approx(
        float(told.group(1)), abs=0.01
    )


def test_an_index_finds_more_of_the_same_kind_than_raw_cosine(pasted):
    labels, truth = pasted["y"], pasted["truth"][:, None]
    X, Q = (normalize(pasted[name]) for name in ("X", "Q"))
    raw = (labels[np.argsort(-Q @ X.T, axis=1, kind="stable")[:, :10]] == truth).mean()
    learned = (labels[pasted["found"]] == truth).mean()
    text = " ".join(README.read_text(encoding="utf-8").split())
    told = re.search(r"found (\.\d+) are of .* raw cosine finds (\.\d+)", text)
    np.testing.assert_allclose([learned, raw], [float(t) for t in told.groups()], atol=0.005)
