"""The one error that users see as a single line."""


class UserError(Exception):
    """Bad input: printed as one line (what, where, how to mend), exit code 2, no traceback."""
