"""Preprocessing of rows: centring, PCA, whitening, random Fourier features."""

from nearkin.preprocessing.fourier import FourierFeatures
from nearkin.preprocessing.preprocess import Preprocess
from nearkin.preprocessing.unit_length import UnitLength
from nearkin.preprocessing.within_class import WithinClassWhitening

__all__ = ["FourierFeatures", "Preprocess", "UnitLength", "WithinClassWhitening"]
