"""regions: the linear regions around training digits when they are memorised and when they are grokked (figure 1)."""
