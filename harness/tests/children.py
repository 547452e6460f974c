"""Children that tests start."""

import signal


def heed_signals() -> None:
    """Let a child heed what a shell's background job, such as this test, may ignore."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
