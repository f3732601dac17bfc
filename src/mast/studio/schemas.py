"""What the studio's API takes and gives, as pydantic models: bounds on everything a client may send."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictBool, StrictInt, StringConstraints

MOST_REGIONS = 16
ImageId = Annotated[str, StringConstraints(pattern=r"^[0-9a-zA-Z-]{1,64}$")]
Name = Annotated[str, StringConstraints(max_length=100)]
Word = Annotated[str, StringConstraints(max_length=40)]
Whole = Annotated[StrictInt, Field(ge=-1_000_000, le=1_000_000)]
Number = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Value = StrictBool | Whole | Number | Word | Annotated[list[Number], Field(max_length=3)] | None
Pixel = Annotated[FiniteFloat, Field(ge=0, le=100_000)]


class Given(BaseModel):
    """Something a client sends: a field that does not exist is a mistake, not a wish."""

    model_config = ConfigDict(extra="forbid")


class RegionRequest(Given):
    """A painting and where it goes."""

    name: Name = ""
    colour: Annotated[str, StringConstraints(pattern=r"^#[0-9a-fA-F]{6}$")] = "#d55e00"
    style: ImageId
    mask: ImageId | None = Field(
        None, description="A grey picture, white where the painting goes; null: the rest."
    )
    strength: Annotated[FiniteFloat, Field(gt=0, le=1)] = 1.0
    style_mask: ImageId | None = Field(
        None, description="The part of the painting that counts; null: all of it."
    )


class SettingsRequest(Given):
    """How to run. What is left out is the preset's, or the model's."""

    preset: Literal["draft", "fast", "paper"] | None = None
    size: Annotated[StrictInt, Field(ge=64, le=2048)] | Literal["auto"] | None = None
    steps: Annotated[StrictInt, Field(ge=2, le=200)] | None = None
    inversion: Literal["plain", "refined"] | None = None
    coarse: Annotated[StrictInt, Field(ge=64, le=2048)] | Literal["auto", "off"] | None = None
    refine: Annotated[FiniteFloat, Field(gt=0, le=1)] | None = None
    fit: Literal["resize", "pad"] | None = None
    keep_unassigned: Literal["reconstruct", "exact"] | None = None
    composite: Literal["hard", "alpha", "poisson", "laplacian"] | None = None


class JobRequest(Given):
    """A photo, its regions, and how to paint them."""

    photo: ImageId
    regions: Annotated[list[RegionRequest], Field(min_length=1, max_length=MOST_REGIONS)]
    method: Annotated[str, StringConstraints(min_length=1, max_length=300)] = "mast"
    settings: SettingsRequest = SettingsRequest()
    options: Annotated[dict[Word, Value], Field(max_length=30)] = {}
    draft: StrictBool = Field(
        False, description="A newer draft takes the place of older ones that wait or run."
    )
    key: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = Field(
        None, description="Of your choice: the same request sent twice with one key is one job."
    )


Point = tuple[Pixel, Pixel, Literal[0, 1]]


class ClickRequest(Given):
    """Points of a photo in its pixels: x, y, and 1 where the object is or 0 where it is not."""

    photo: ImageId
    points: Annotated[list[Point], Field(min_length=1, max_length=64)]


class BoxRequest(Given):
    """Left, upper, right and lower side of a box around an object, in pixels of the photo."""

    photo: ImageId
    box: tuple[Pixel, Pixel, Pixel, Pixel]


class AutoRequest(Given):
    """How many regions to find: n - 1 objects and a background."""

    photo: ImageId
    n: Annotated[StrictInt, Field(ge=2, le=MOST_REGIONS)] = 3


# ------------------------------------------------------------------------------------------------ answers


class ErrorView(BaseModel):
    """A sentence that says what is wrong, and the way out."""

    error: str


class ImageView(BaseModel):
    """A picture that is here."""

    id: str
    width: int
    height: int
    url: str


class MaskView(BaseModel):
    """A mask that was found, and the share of the photo that it covers."""

    mask: str
    share: float


class FoundRegion(MaskView):
    """A mask with a name."""

    name: str


class FoundRegions(BaseModel):
    """The regions of a photo; their masks tile it."""

    regions: list[FoundRegion]
    notes: list[str] = []


class ProgressView(BaseModel):
    """How far a job is: steps done of those in all, of a stage and level; seconds left, as far as known."""

    stage: str
    done: int
    total: int
    level: int
    levels: int
    seconds_left: float | None


class MassView(BaseModel):
    """Where the attention of the photo went to one style."""

    name: str
    url: str


class ResultView(BaseModel):
    """What a job has made."""

    url: str
    width: int
    height: int
    sheet: str
    jobfile: str
    command: str
    masses: list[MassView]
    thumbnail: str


class JobView(BaseModel):
    """A job as it is now. Times are in UTC; position: in the queue, the next one at 1."""

    id: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    draft: bool
    created: str
    started: str | None
    finished: str | None
    position: int | None
    progress: ProgressView | None
    preview: str | None
    error: str | None
    notes: list[str]
    seconds: dict[str, float]
    request: dict[str, Any]
    result: ResultView | None


class JobList(BaseModel):
    """Newest first."""

    jobs: list[JobView]


class ModelView(BaseModel):
    """The model that paints."""

    name: str
    state: Literal["loading", "ready", "failed"]
    message: str


class SegmenterView(BaseModel):
    """What finds objects."""

    available: bool
    message: str


class StatusView(BaseModel):
    """How the studio is. queue: jobs that wait or run, of everybody."""

    version: str
    model: ModelView
    segmenter: SegmenterView
    queue: int
