"""What a module says whose package is not there."""

from gnomon.errors import MissingExtraError


def missing(package: str, extra: str, cause: Exception) -> MissingExtraError:
    """The error to raise from what importing `package` raised: it is not installed, or it is broken, and how."""
    if isinstance(cause, ModuleNotFoundError) and str(cause.name).partition(".")[0] == package:
        return MissingExtraError(f"gnomon.integrations needs {package}: pip install 'gnomon[{extra}]'")
    return MissingExtraError(
        f"gnomon.integrations needs {package}, which is installed but does not import "
        f"({type(cause).__name__}: {cause}): pip install --force-reinstall 'gnomon[{extra}]'"
    )
