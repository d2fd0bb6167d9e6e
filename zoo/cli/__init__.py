"""The command `zoo`: what can be typed, and the only place that prints."""
