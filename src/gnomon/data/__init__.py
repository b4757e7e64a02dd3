"""Data sets: digits, XOR clusters, images from folders or the Hugging Face hub, and sums modulo a number."""

from gnomon.data._digits import digits
from gnomon.data._images import IMAGE_COLUMNS, LABEL_COLUMNS, load_images
from gnomon.data._modular_addition import Tokens, modular_addition
from gnomon.data._parquet import files_of, split_of
from gnomon.data._samples import Samples, normalise, standardise
from gnomon.data._sources import find, home
from gnomon.data._xor_clusters import xor_clusters

__all__ = [
    "IMAGE_COLUMNS",
    "LABEL_COLUMNS",
    "Samples",
    "Tokens",
    "digits",
    "files_of",
    "find",
    "home",
    "load_images",
    "modular_addition",
    "normalise",
    "split_of",
    "standardise",
    "xor_clusters",
]
