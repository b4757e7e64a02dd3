"""`make soak`: kills runs, alters files, and feeds nonsense to everything that is public, for an hour.

It lives outside the tests, since it has no end of its own. Each case is drawn from the seed and its number alone, so
that a failure can be made again: `python -m soak --again KIND:NUMBER`.
"""
