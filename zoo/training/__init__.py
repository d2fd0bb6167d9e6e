"""A model, a split and a task to the best weights."""

import zoo.models  # noqa: F401 (whoever trains, or reads what was trained, knows every model)
