"""The one exception that a user is meant to see."""


class HarnessError(Exception):
    """An error that is told in one line, without a traceback.

    `detail` holds lines worth reading before that one: the end of a log, for instance.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        """Keep the line and what to print before it."""
        super().__init__(message)
        self.detail = detail
