"""What changes training, built from measure's own functions."""

from gnomon.steer._grokalign import GrokAlign
from gnomon.steer._grokfast import GrokfastEMA, GrokfastMA
from gnomon.steer._input_noise import InputNoise, input_noise, noise_level

__all__ = [
    "GrokAlign",
    "GrokfastEMA",
    "GrokfastMA",
    "InputNoise",
    "input_noise",
    "noise_level",
]
