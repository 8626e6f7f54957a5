"""The one exception that a user is meant to read."""


class VseppError(Exception):
    """Bad input or an impossible request.

    The message says what is wrong, where (file, key or row), what was expected, what was found and what
    to do next. The command line prints it without a traceback and exits with status 1.
    """
