"""The checks of `zoo data check`."""
