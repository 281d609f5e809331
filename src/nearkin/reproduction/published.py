"""The figures and the settings that the paper prints, in this module only.

Wang, Yang, Lin, Brandt, Chang, Huang: *Scalable Similarity Learning using Large Margin
Neighborhood Embedding*. Accuracies and errors are in per cent.
"""

from dataclasses import dataclass

MARGIN, STEP_SIZE, EPOCHS = 0.02, 0.2, 20

# Table 1: accuracies on four classes of Caltech-101, divided in four ways.
TOY_CLASSES = ("flamingo", "ibis", "ketch", "schooner")
DIVISIONS = {
    "bird/boat": {"flamingo": "bird", "ibis": "bird", "ketch": "boat", "schooner": "boat"},
    "flm/ibs": {"flamingo": "flamingo", "ibis": "ibis"},
    "ktc/sch": {"ketch": "ketch", "schooner": "schooner"},
    "all four": {name: name for name in TOY_CLASSES},
}
TABLE1 = {
    "Euclidean kNN": dict(zip(DIVISIONS, (92.15, 60.93, 59.52, 55.45))),
    "LMNN": dict(zip(DIVISIONS, (94.00, 64.93, 66.66, 61.83))),
    "SL-NE": dict(zip(DIVISIONS, (98.72, 78.14, 76.21, 76.43))),
}

# Table 2: growth of the training time.
GROWTH = ("sample number", "class number", "data dimension")
TABLE2 = {
    "linear SVM": dict(zip(GROWTH, ("linear", "linear", "linear"))),
    "Retrieval": dict(zip(GROWTH, ("linear", "constant", "constant"))),
    "LMNN": dict(zip(GROWTH, ("quadratic", "constant", "quadratic"))),
    "SL-NE": dict(zip(GROWTH, ("linear", "constant", "quadratic"))),
    "SL-DE": dict(zip(GROWTH, ("linear", "constant", "constant"))),
}
EXPONENTS = {"constant": 0.0, "linear": 1.0, "quadratic": 2.0}

# Table 3: top-1 and top-3 accuracies; None: the paper could not finish it.
METHODS = ("linear SVM", "Retrieval", "LMNN", "SL-NE", "SL-DE")
TABLE3: dict[str, dict[int, dict[str, float | None]]] = {
    "Caltech-101": {
        1: dict(zip(METHODS, (73.46, 63.49, 69.16, 75.28, 75.14))),
        3: dict(zip(METHODS, (84.59, 77.87, 80.83, 85.29, 85.30))),
    },
    "Caltech-256": {
        1: dict(zip(METHODS, (43.61, 37.28, 37.47, 46.02, 45.39))),
        3: dict(zip(METHODS, (56.97, 48.83, 46.84, 55.97, 55.33))),
    },
    "SUN-397": {
        1: dict(zip(METHODS, (32.08, 29.06, None, 35.32, 35.72))),
        3: dict(zip(METHODS, (48.73, 43.87, None, 51.37, 52.17))),
    },
}

# Table 4: top-1 flat errors on ILSVRC'10. Those of LMNN and of Mensink et al. are taken by the
# paper from Mensink et al., who use Fisher vectors, as is a second figure for the SVM, 60.2.
TABLE4 = {
    "linear SVM": 73.93,
    "Retrieval": 77.19,
    "LMNN": 72.90,
    "Mensink et al.": 65.10,
    "PCA subspace": 80.44,
    "SL-NE": 66.37,
    "SL-DE": 68.00,
}


@dataclass(frozen=True)
class PaperSettings:
    """How the paper runs one data set."""

    neighbors: int  # |N|, in training and testing
    dims: int  # of the PCA that makes the input
    member_dims: int  # d of SL-DE
    members: int  # N_E
    projection: str = "mixed"  # "PCA and random subspaces"
    epochs: int = EPOCHS


SETTINGS = {
    "Caltech-101": PaperSettings(50, 3_000, 1_000, 20),
    "Caltech-256": PaperSettings(50, 3_000, 300, 200),
    "SUN-397": PaperSettings(500, 3_000, 500, 100),
    "ILSVRC'10": PaperSettings(500, 1_000, 100, 10, "pca", epochs=3),
}
FIGURE4_DIMS = (20, 50, 100, 300, 1_000)
FIGURE4_MEMBERS = 20
