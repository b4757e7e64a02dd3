"""Data sets as `Samples`: embedded digits, and images from parquet folders or the Hugging Face hub."""

from gnomon.data.digits import digits
from gnomon.data.images import load_images
from gnomon.data.samples import Samples, normalise, standardise

__all__ = ["Samples", "digits", "load_images", "normalise", "standardise"]
