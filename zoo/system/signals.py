"""The signals that ask a process to end."""

import signal

ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Besides Ctrl-C; Windows knows one of them."""
