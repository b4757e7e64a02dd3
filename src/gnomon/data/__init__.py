"""Data sets as `Samples`: digits, XOR clusters, and images from parquet folders or the Hugging Face hub."""

from gnomon.data.digits import digits
from gnomon.data.images import load_images
from gnomon.data.modular_addition import modular_addition
from gnomon.data.samples import Samples, normalise, standardise
from gnomon.data.xor_clusters import xor_clusters

__all__ = ["Samples", "digits", "load_images", "modular_addition", "normalise", "standardise", "xor_clusters"]
