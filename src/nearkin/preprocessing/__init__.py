"""Preprocessing of rows: centring, PCA, whitening, random Fourier features."""

from nearkin.preprocessing.fourier import FourierFeatures
from nearkin.preprocessing.preprocess import Preprocess

__all__ = ["FourierFeatures", "Preprocess"]
