"""What changes training, built from measure's own functions."""

from gnomon.steer.grokalign import GrokAlign
from gnomon.steer.grokfast import GrokfastEMA, GrokfastMA
from gnomon.steer.input_noise import InputNoise, input_noise, noise_level

__all__ = ["GrokAlign", "GrokfastEMA", "GrokfastMA", "InputNoise", "input_noise", "noise_level"]
