"""The contract of the quantities: one row each, checked by test_contract. A quantity without a row fails there."""

import importlib
import pkgutil

from tests.contract.row import Contract
from tests.contract.source import Sizes, Source

FAMILIES = [
    importlib.import_module(f"{__name__}.of_{name}")
    for name in (
        module.name.removeprefix("of_") for module in pkgutil.iter_modules(__path__) if module.name.startswith("of_")
    )
]
CONTRACTS = {row.quantity.__name__: row for family in FAMILIES for row in family.ROWS}
"""By the quantity's name."""

__all__ = ["CONTRACTS", "Contract", "Sizes", "Source"]
