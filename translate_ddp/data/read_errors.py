"""What reading libraries raise, as messages for the user."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from translate_ddp.errors import UserError, first_line

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def explain_read_errors(source: str | Path, advice: str) -> Iterator[None]:
    """Raise any exception as a UserError: the source, the first line of the first cause, `advice`.

    The libraries do not document what they raise, so all exceptions are caught.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, OSError) and cause.errno in NO_SPACE:
            raise UserError(
                f"No space to read {source} into the cache of `datasets`: {cause.strerror}. Free "
                "some, or set HF_HOME to a folder on another disk."
            ) from error
        reason = first_line(cause).rstrip(".")
        raise UserError(f"{source} cannot be read: {reason}. {advice}") from error


def list_names(names: Iterable[str], limit: int = 20) -> str:
    """The first `limit` names, separated by commas, and the number of the others."""
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return (", ".join(names[:limit]) or "nothing") + more
