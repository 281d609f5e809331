"""Bodies of requests and responses, as the OpenAPI documentation shows them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Label = str | int | float | bool
Name = Literal["raw", "learned"]
Number = Annotated[float, Field(allow_inf_nan=False)]
MOST_QUERIES, MOST_IMAGES = 1_000, 16


class Queries(BaseModel):
    """What to ask about: exactly one of `vectors`, `rows` and `images`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    vectors: Annotated[
        list[list[Number]] | None,
        Field(max_length=MOST_QUERIES, description="Vectors as the model was trained on."),
    ] = None
    rows: Annotated[
        list[int] | None,
        Field(max_length=MOST_QUERIES, description="Numbers of stored rows; each asks for others."),
    ] = None
    images: Annotated[
        list[str] | None,
        Field(max_length=MOST_IMAGES, description="Image files in base64, for a run on images."),
    ] = None


class Search(Queries):
    """A search for the most similar stored rows."""

    n: Annotated[int, Field(ge=1, description="Rows to find; at most the model's shortlist.")] = 10
    label: Annotated[Label | None, Field(description="Find rows of this class only.")] = None
    similarities: Annotated[
        list[Name] | None,
        Field(min_length=1, description="By default both, raw cosine where its rows are known."),
    ] = None


class Classify(Queries):
    """A question for classes."""

    top: Annotated[int, Field(ge=1, description="Classes to give, the most probable first.")] = 5
    votes: Annotated[bool, Field(description="Also say who voted how much.")] = False


class Transform(Queries):
    """A question for the vectors to ask an index of vectors as they are."""


class Hit(BaseModel):
    """A stored row."""

    row: int
    label: Label | None = None
    name: str | None = None
    id: str | int | None = None
    similarity: float


class Found(BaseModel):
    """The most similar rows of a query, best first."""

    raw: list[Hit] | None = None
    learned: list[Hit] | None = None


class SearchAnswer(BaseModel):
    """One entry a query, in their order; `model` changes when a new model is put in place."""

    model: str
    queries: list[Found]


class ClassShare(BaseModel):
    """A class: its probability is the sum of what neighbours, class mean and prior give it."""

    label: Label
    probability: float
    neighbors: float
    class_mean: float
    prior: float


class Voter(Hit):
    """A neighbour, and how much it added to the probability of its class."""

    share: float


class Decision(BaseModel):
    """The most probable classes of a query."""

    classes: list[ClassShare]
    novelty: float | None
    unknown: bool | None = Field(description="Whether the query resembles no stored row.")
    votes: list[Voter] | None = None


class ClassifyAnswer(BaseModel):
    """One entry a query, in their order."""

    model: str
    queries: list[Decision]


class TransformAnswer(BaseModel):
    """What to ask the index for, in place of the queries."""

    model: str
    metric: str
    vectors: list[list[float]]


class Problem(BaseModel):
    """Why a request was refused."""

    error: dict[str, Any]
