"""What judges a series of readings."""

from gnomon.history._feature_learning_interval import FeatureLearningInterval, feature_learning_interval
from gnomon.history._plateau import Plateau, plateau
from gnomon.history._traits import TRAITS, traits

__all__ = [
    "TRAITS",
    "FeatureLearningInterval",
    "Plateau",
    "feature_learning_interval",
    "plateau",
    "traits",
]
