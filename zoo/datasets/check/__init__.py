"""What `zoo data check` looks at."""
