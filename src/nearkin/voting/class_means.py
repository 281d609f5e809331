"""Class means, which vote beside the neighbours.

Linear classifiers win where classes overlap, because they use statistics of whole classes. The
similarity of a query to the mean of each class uses the same statistics, under the learned M.
"""

import numpy as np
from numpy.typing import NDArray

from nearkin.preprocessing.class_sums import class_sums

Array = NDArray[np.float32]


def class_means(rows: Array, labels: NDArray[np.integer], n_classes: int) -> Array:
    """The mean of each class's rows, scaled to unit length; zero for a class without rows."""
    sums = class_sums(rows, labels, n_classes)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.where(lengths > 0, lengths, 1)).astype(np.float32)
