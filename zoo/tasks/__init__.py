"""What a model is for: tasks, with tables of losses and metrics that a plug-in extends."""

from zoo.tasks.links import LinkTask
from zoo.tasks.losses import LOSSES
from zoo.tasks.metrics import METRICS
from zoo.tasks.task import TASKS, Task

__all__ = ["LOSSES", "LinkTask", "METRICS", "TASKS", "Task"]
