"""What passes through a network is noted where no reading looks, which would put it back."""

from collections.abc import Generator


def noting(sizes: list[int]) -> Generator[None, int, None]:
    """Adds what is sent to the list, which only this generator holds."""
    while True:
        sizes.append((yield))


def sizes_of_passes(model):
    """A list that grows by the samples of each pass from now on."""
    sizes: list[int] = []
    notes = noting(sizes)
    next(notes)
    model.register_forward_hook(lambda module, inputs, output: notes.send(len(output)))
    return sizes
