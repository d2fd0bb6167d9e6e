"""What is known of trained weights beside their numbers, in the words of `config.json`."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from zoo.config.options import Seed, Spec


class About(BaseModel):
    """What weights were trained on and what came of it; None where it is not known."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    data: str | None = Field(None, description="name of the data set")
    task: str | None = Field(None, description="word of the task")
    metric: str | None = Field(None, description="what the scores measure")
    features: Annotated[int, Field(ge=0)] | None = Field(
        None, description="features of a node, without the encoding"
    )
    feature_names: list[str] | None = Field(None, description="their names, in order")
    labels: list[str] | None = Field(None, description="names of the classes, or of the targets")
    transform: Spec = Field("raw", description="what is done to the features first")
    encoding: Spec = Field("none", description="the encoding that is put beside them")
    recipe: dict[str, Any] | None = Field(None, description="the recipe, with every value")
    seed: Seed | None = Field(None, description="the seed of the recipe that was run")
    scores: dict[str, float] | None = Field(None, description="train, val, test: best epoch")
    versions: dict[str, str | None] | None = Field(None, description="packages it was run with")

    @model_validator(mode="after")
    def _count_names(self) -> Self:
        if self.feature_names is not None and len(self.feature_names) != self.features:
            raise ValueError(
                f"{len(self.feature_names)} feature_names for {self.features} features"
            )
        return self
