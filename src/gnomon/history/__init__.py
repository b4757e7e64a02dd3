"""What judges a series of readings."""

from gnomon.history._corpus import Corpus, SimilarRun, corpus
from gnomon.history._feature_learning_interval import FeatureLearningInterval, feature_learning_interval
from gnomon.history._plateau import Plateau, plateau
from gnomon.history._traits import TRAITS, traits
from gnomon.history._verdict import CLOSED, RISE, ROUNDING, Verdict, undecided, verdict
from gnomon.history._verdict_words import LIKELY

__all__ = [
    "CLOSED",
    "LIKELY",
    "RISE",
    "ROUNDING",
    "TRAITS",
    "Corpus",
    "FeatureLearningInterval",
    "Plateau",
    "SimilarRun",
    "Verdict",
    "corpus",
    "feature_learning_interval",
    "plateau",
    "traits",
    "undecided",
    "verdict",
]
