"""At which call of each turn of k calls a penalty acts."""

_BITS = (1 << 64) - 1


def place(turn: int, every: int) -> int:
    """The place in [0, every) of the call that acts in this turn; 0 in turn 0.

    A function of the turn alone, so that a count of calls is all that is needed to resume; and pseudo-random: with
    places that recur, or with multiples of the golden ratio, there are numbers of batches at which some, if they come
    in a fixed order, are always missed, or for thousands of epochs.

    Source:
        The turn-th number of SplitMix64 from seed 0: Steele, Lea and Flood, doi:10.1145/2660193.2660195.
    """
    z = turn * 0x9E3779B97F4A7C15 & _BITS
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _BITS
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _BITS
    return (z ^ z >> 31) % every
