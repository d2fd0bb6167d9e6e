"""Studies: experiments with a prediction beside each measurement, by name, for `zoo study`."""

from zoo.config.options import Table
from zoo.studies.batching import batching_study
from zoo.studies.cost import rba_cost
from zoo.studies.devices import rba_devices
from zoo.studies.energy import difformer_energy
from zoo.studies.random_batches import rba_control, rba_evaluation
from zoo.studies.study import Row, Series, Study, write_study
from zoo.studies.theory import rba_theory
from zoo.studies.transfer import transfer_study

STUDIES = Table(
    "study",
    {
        "batching": batching_study,
        "difformer-energy": difformer_energy,
        "rba-control": rba_control,
        "rba-cost": rba_cost,
        "rba-devices": rba_devices,
        "rba-evaluation": rba_evaluation,
        "rba-theory": rba_theory,
        "transfer": transfer_study,
    },
)
"""Word to builder `(*, quick, options) -> Study`."""

__all__ = ["STUDIES", "Row", "Series", "Study", "write_study"]
