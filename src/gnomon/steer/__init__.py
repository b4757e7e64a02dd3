"""Methods that change training, built on the derivatives that `measure` uses; and others to compare them with."""

from gnomon.steer._egalitarian_gradients import EgalitarianGradients
from gnomon.steer._grokalign import GrokAlign
from gnomon.steer._grokfast import GrokfastEMA, GrokfastMA
from gnomon.steer._input_noise import InputNoise, input_noise, noise_level
from gnomon.steer._orthograd import OrthoGrad
from gnomon.steer._sam import SAM
from gnomon.steer._spectral_norm_penalty import SpectralNormPenalty
from gnomon.steer._stablemax_cross_entropy import stablemax_cross_entropy
from gnomon.steer._weight_norm_constraint import WeightNormConstraint

__all__ = [
    "SAM",
    "EgalitarianGradients",
    "GrokAlign",
    "GrokfastEMA",
    "GrokfastMA",
    "InputNoise",
    "OrthoGrad",
    "SpectralNormPenalty",
    "WeightNormConstraint",
    "input_noise",
    "noise_level",
    "stablemax_cross_entropy",
]
