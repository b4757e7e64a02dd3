"""Figures for a paper, drawn with matplotlib, which the extra `plot` brings."""

from gnomon._extras import missing

try:
    import matplotlib  # noqa: F401
except Exception as cause:
    raise missing("gnomon.plot", "matplotlib", "plot", cause) from cause
