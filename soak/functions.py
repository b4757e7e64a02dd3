"""Every public function of gnomon with arguments made wrong once or twice, at sizes of all kinds."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import torch
from tests import fuzz

from gnomon.errors import GnomonError
from soak.case import Case

FAULT_OF = {"right": "", "refused": "", "raw": "raw", "wrong": "wrong"}


class Functions:
    """The callables, the mutations and the verdicts are those of tests/fuzz.py, which goes through them once."""

    name, share, unit, limit = "functions", 0.2, 400, 60.0

    def prepare(self, folder: Path) -> None:
        """The table, and one call of each, so that all that is imported late is there before the first worker."""
        self.callables = [*fuzz.callables()]
        for _, function, arguments in self.callables:
            fuzz.verdict(function, arguments(torch.Generator().manual_seed(0)))

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """One call."""
        name, function, make = self.callables[number % len(self.callables)]
        sizes = fuzz.Sizes(chance.randint(4, 16), chance.randint(2, 4), chance.randint(3, 6), chance.randint(4, 7))
        torch.manual_seed(number)
        generator = torch.Generator().manual_seed(chance.getrandbits(60))
        arguments = made(make, generator, sizes)
        words = [f"{name} at {sizes}"]
        for _ in range(chance.choice([1, 1, 1, 2])):
            if changed := changes(arguments, generator):
                what, arguments = chance.choice(changed)
                words.append(what)
        verdict, why = fuzz.judged(function, arguments)
        return Case(", ".join(words), FAULT_OF[verdict], why)


def changes(arguments: fuzz.Arguments, generator: torch.Generator) -> list[fuzz.Mutation]:
    """The mutations, up to one that cannot be made of what was changed before."""
    found, every = [], fuzz.mutations(arguments, generator)
    with suppress(RuntimeError, IndexError, ValueError, TypeError, GnomonError):
        for change in every:
            found.append(change)
    return found


def made(make: Callable[..., fuzz.Arguments], generator: torch.Generator, sizes: fuzz.Sizes) -> fuzz.Arguments:
    """Arguments that are right; of the usual sizes where others make none."""
    try:
        return make(generator, sizes)
    except GnomonError:
        return make(generator)
