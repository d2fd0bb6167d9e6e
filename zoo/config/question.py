"""What is predicted of what: that which all runs that are set against each other have in common."""

from zoo.config.options import Spec

ASKED = ("name", "task", "label", "horizon")
"""Options of the data that say so."""


def other_question(dataset: Spec, other: Spec) -> str | None:
    """Return an option by which two data sets, as plans have them, are other questions, or None.

    Of nodes that are drawn all options say what these are, but what is done to their features.
    """
    dataset, other = (
        {"name": each} if isinstance(each, str) else each for each in (dataset, other)
    )
    keys = dataset.keys() - {"features"} if dataset["name"] == "sbm" else ASKED
    for key in (each for each in dataset if each in keys):
        one, two = dataset[key], other.get(key)
        if None not in (one, two) and one != two:
            return key
    return None
