"""Rows made comparable before neighbours are found: centring, PCA, whitening, Fourier features."""

from nearkin.preprocessing.fourier import FourierLift
from nearkin.preprocessing.preprocess import Preprocess

__all__ = ["FourierLift", "Preprocess"]
