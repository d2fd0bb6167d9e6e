"""What the parts of the zoo promise, for anyone's models, attentions, encodings and propagations.

`check_model("mine")` checks all promises of a model; `zoo check mine.py` does so from a shell, and
`promises` makes a test of each in a test suite of your own:

    @zoo.testing.promises(zoo.testing.model_promises("mine"))
    def test_mine(promise):
        promise()
"""

from zoo.testing.attentions import attention_promises, check_attention
from zoo.testing.cases import model_cases
from zoo.testing.encodings import check_encoding, encoding_promises
from zoo.testing.models import check_model, model_promises
from zoo.testing.promise import Broken, Promise, promises
from zoo.testing.propagations import check_propagation, propagation_promises

__all__ = [
    "Broken",
    "Promise",
    "attention_promises",
    "check_attention",
    "check_encoding",
    "check_model",
    "check_propagation",
    "encoding_promises",
    "model_cases",
    "model_promises",
    "promises",
    "propagation_promises",
]
