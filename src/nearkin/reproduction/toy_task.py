"""The task of Table 1 and Figure 1: four classes of Caltech-101, divided into kinds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.preprocessing import Preprocess
from nearkin.reproduction import published, tasks
from nearkin.reproduction.layouts import some_of_each, thirty
from nearkin.reproduction.setup import Setup

NEIGHBORS = 30  # the size of a class


def toy(setup: Setup, recipe: tasks.Recipe = tasks.PAPERS) -> tuple[Any, Any]:
    """The images of the four classes and their LLC features."""
    images = tasks.image_set(setup, "Caltech-101")
    made = tasks.features(setup, images, recipe)
    chosen = np.flatnonzero(np.isin(images.folder.labels, published.TOY_CLASSES))
    if len(np.unique(images.folder.labels[chosen])) < len(published.TOY_CLASSES):
        raise ValueError(
            f"Caltech-101 in {setup.data} lacks some of the classes "
            f"{', '.join(published.TOY_CLASSES)}; Table 1 and Figure 1 are about these"
        )
    return images.only(chosen), np.asarray(made[chosen], np.float32) ** recipe.power


def divided(labels: NDArray[Any], features: Any, names: dict[str, str], seed: int) -> tasks.Task:
    """Split `seed` of the images that a division is about, as rows."""
    part = np.flatnonzero(np.isin(labels, list(names)))
    mask = some_of_each(np.unique(labels[part], return_inverse=True)[1], seed, thirty)
    coarse = np.array([names[label] for label in labels[part]])
    y = np.unique(coarse, return_inverse=True)[1]
    dims, training = int(mask.sum()) - 1, features[part[mask]]
    prepare = Preprocess(dims, whitening=0).fit(training)
    Z = prepare.transform(features[part])
    R = Preprocess(dims, **tasks.RETRIEVAL).fit(training).transform(features[part])
    found = R[mask], R[~mask]
    return tasks.Task("toy", Z[mask], y[mask], Z[~mask], y[~mask], prepare.variances_, found)
