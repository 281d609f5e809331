"""Made-up image folders in the official layouts."""

import numpy as np
from PIL import Image
from scipy.io import savemat

CALTECH = ("BACKGROUND_Google", "flamingo", "ibis", "ketch", "panda", "schooner")


def picture(path, kind, seed, side=48):
    """Stripes whose direction and width say the kind, and noise."""
    rng = np.random.default_rng([kind, seed])
    x, y = np.meshgrid(np.arange(side), np.arange(side))
    angle, period = 0.5 * kind + rng.normal(0, 0.4), 6 + 2 * (kind % 3)
    wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period + rng.uniform(0, 6))
    grey = 128 + 40 * wave + rng.normal(0, 60, (side, side))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).save(path, "PNG")


def caltech101(data, images=9):
    for kind, name in enumerate(CALTECH):
        for i in range(images):
            picture(data / "101_ObjectCategories" / name / f"image_{i:04d}.png", kind, i)


def caltech256(data, images=24):
    for kind, name in enumerate(("001.ak47", "002.american-flag", "257.clutter")):
        for i in range(images):
            picture(data / "256_ObjectCategories" / name / f"{name[:3]}_{i:04d}.png", kind, i)


def sun(data, images=10):
    for kind, name in enumerate(("a/abbey", "a/apartment_building/outdoor", "z/zen_garden")):
        for i in range(images):
            picture(data / "SUN397" / name / f"sun_{i:04d}.png", kind, i)


def ilsvrc(data, images=8, tests=3, part="test"):
    root = data / "ILSVRC2010"
    names = ("n01440764", "n02124075", "n07749582")
    numbers = (30, 10, 20)  # the kit counts the classes in an order of its own
    truth = []
    for kind, name in enumerate(names):
        for i in range(images):
            picture(root / "train" / name / f"{name}_{i}.JPEG", kind, i)
    for i in range(tests * len(names)):
        kind = i % len(names)
        picture(root / part / f"ILSVRC2010_{part}_{i + 1:08d}.JPEG", kind, 100 + i)
        truth.append(numbers[kind])
    (root / "data").mkdir()
    long_name = {"test": "test", "val": "validation"}[part]
    lines = "\n".join(map(str, truth)) + "\n"
    (root / "data" / f"ILSVRC2010_{long_name}_ground_truth.txt").write_text(lines)
    synsets = np.zeros(len(names), [("ILSVRC2010_ID", object), ("WNID", object)])
    synsets["ILSVRC2010_ID"], synsets["WNID"] = numbers, names
    savemat(root / "data" / "meta.mat", {"synsets": synsets})


def mnist(data, rows=150, tests=50):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, rows + tests)
    X = np.clip(rng.normal(0, 20, (4, 784))[y] + rng.normal(90, 90, (len(y), 784)), 0, 255)
    X = X.reshape(-1, 28, 28).astype(np.uint8)
    np.savez(data / "mnist.npz", x_train=X[:rows], y_train=y[:rows], x_test=X[rows:],
             y_test=y[rows:])  # fmt: skip
