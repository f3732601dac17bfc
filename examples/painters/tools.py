"""Small painting toolbox: noise, colour ramps, flow fields, bristle brushes, relief.

Everything works on a square canvas of ``N`` pixels, twice the size of the finished picture; the final
reduction gives smooth edges. Only numpy and Pillow are needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

SIZE = 512
N = 2 * SIZE
Array = NDArray[np.float64]
Colour = tuple[int, int, int]
Rng = np.random.Generator


def rgb(code: str) -> Colour:
    """Turn ``"1a2b3c"`` into an (r, g, b) triple."""
    return int(code[0:2], 16), int(code[2:4], 16), int(code[4:6], 16)


def palette(codes: str) -> list[Colour]:
    """Turn a string of hex codes separated by blanks into a list of colours."""
    return [rgb(code) for code in codes.split()]


def grid() -> tuple[Array, Array]:
    """Return the x and y coordinates of all canvas pixels, each from 0 to 1."""
    axis = (np.arange(N) + 0.5) / N
    x, y = np.meshgrid(axis, axis)
    return x, y


def resize(values: Array, shape: tuple[int, int]) -> Array:
    """Resize a 2-D array of floats with bicubic interpolation to (height, width)."""
    image = Image.fromarray(values.astype(np.float32))
    return np.asarray(image.resize((shape[1], shape[0]), Image.Resampling.BICUBIC), dtype=np.float64)


def noise(rng: Rng, cells: int, octaves: int = 4, stretch: float = 1.0) -> Array:
    """Fractal noise between 0 and 1; ``cells`` across, ``stretch`` > 1 draws it out horizontally."""
    total = np.zeros((N, N))
    for octave in range(octaves):
        rows = max(2, cells * 2**octave)
        cols = max(2, int(cells * 2**octave / stretch))
        total += resize(rng.random((rows + 1, cols + 1)), (N, N)) / 2**octave
    low, high = np.percentile(total, (1, 99))
    return np.clip((total - low) / (high - low), 0, 1)


def ridge(rng: Rng, base: float, height: float, cells: int = 3, octaves: int = 5) -> Array:
    """A mountain skyline: one y value (0 to 1) per canvas column."""
    total = np.zeros(N)
    for octave in range(octaves):
        knots = rng.random((1, cells * 2**octave + 1))
        total += resize(np.repeat(knots, 2, axis=0), (2, N))[0] / 1.9**octave
    total = (total - total.min()) / (total.max() - total.min())
    return base - height * total


def ramp(t: Array, colours: list[Colour]) -> Array:
    """Map values from 0 to 1 through a list of colours; returns a float RGB array."""
    table = np.array(colours, dtype=np.float64)
    stops = np.linspace(0, 1, len(table))
    return np.stack([np.interp(t, stops, table[:, channel]) for channel in range(3)], axis=-1)


def smooth(t: Array, low: float, high: float) -> Array:
    """Smooth step from 0 (at ``low``) to 1 (at ``high``)."""
    t = np.clip((t - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def over(base: Array, paint: Array, alpha: Array) -> Array:
    """Lay ``paint`` over ``base`` with the given opacity map."""
    return base + (paint - base) * alpha[..., None]


def to_image(values: Array) -> Image.Image:
    """Round a float RGB array to an 8-bit image."""
    return Image.fromarray(np.clip(values + 0.5, 0, 255).astype(np.uint8))


def to_array(image: Image.Image) -> Array:
    """Return an image as floats."""
    return np.asarray(image, dtype=np.float64)


def blurred(values: Array, radius: float) -> Array:
    """Gaussian blur of a float image with values 0 to 255."""
    return to_array(to_image(values).filter(ImageFilter.GaussianBlur(radius)))


def relief(colour: Array, height: Array, strength: float, gloss: float = 0.0) -> Array:
    """Light a height map from the upper left, so that paint looks thick; ``gloss`` adds highlights."""
    dy, dx = np.gradient(height)
    light = (dx + dy) * strength / 255
    shaded = colour * (1 - np.clip(light, -0.45, 0.45))[..., None]
    return shaded + (255 - shaded) * np.clip(-light - 0.12, 0, 0.5)[..., None] * gloss


def voronoi(points: Array, metric: float = 2.0) -> tuple[NDArray[np.int64], Array]:
    """Nearest point for each pixel and the distance to the cell border (in units of the canvas)."""
    half_x, half_y = grid()
    half_x, half_y = half_x[::2, ::2], half_y[::2, ::2]
    first = np.full(half_x.shape, 9.0)
    second = first.copy()
    index = np.zeros(half_x.shape, dtype=np.int64)
    for number, (px, py) in enumerate(points):
        distance = (np.abs(half_x - px) ** metric + np.abs(half_y - py) ** metric) ** (1 / metric)
        closer = distance < first
        second = np.where(closer, first, np.minimum(second, distance))
        index[closer] = number
        first = np.where(closer, distance, first)
    border = resize((second - first) / 2, (N, N))
    return np.repeat(np.repeat(index, 2, axis=0), 2, axis=1), border


class Canvas:
    """A canvas for bristle brushes: keeps the colour and the thickness of the paint."""

    def __init__(self, ground: Array | Colour, tint: float = 0.33) -> None:
        """Start with a ground colour or picture; ``tint`` is the share of colour variation in strokes."""
        start = np.zeros((N, N, 3)) + np.array(ground, dtype=np.float64)
        self.image = to_image(start)
        self.thickness = Image.new("L", (N, N), 100)
        self.pen = ImageDraw.Draw(self.image)
        self.body = ImageDraw.Draw(self.thickness)
        self.tint = tint

    def stroke(
        self,
        rng: Rng,
        path: Array,
        colour: Array,
        width: float,
        bristles: int,
        vary: float,
        dry: float = 0.0,
        ends: tuple[float, float] = (0.25, 0.85),
    ) -> None:
        """Draw one stroke as a bundle of bristle lines along ``path`` (points in pixels).

        ``dry`` is the share of missing bristles; ``ends`` near (0, 1) makes the stroke pointed.
        """
        step = np.gradient(path, axis=0)
        normal = np.stack([-step[:, 1], step[:, 0]], axis=1)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-9
        swell = np.sin(np.linspace(*ends, len(path)) * np.pi) ** 0.5
        line = max(1, round(1.5 * width / bristles))
        joint = "curve" if line > 4 else None
        offsets = rng.permutation(np.linspace(-0.5, 0.5, bristles))
        lines = path + offsets[:, None, None] * width * (normal * swell[:, None])
        tones = colour + rng.normal(0, vary, (bristles, 1)) + rng.normal(0, vary * self.tint, (bristles, 3))
        shades = np.clip(tones, 0, 255).astype(int).tolist()
        ridges = rng.integers(40, 255, bristles).tolist()
        starts = rng.integers(0, 2, bristles)
        ends_at = len(path) - rng.integers(0, 1 + len(path) // 4, bristles)
        for number in np.flatnonzero(rng.random(bristles) >= dry):
            flat = lines[number, starts[number] : ends_at[number]].ravel().tolist()
            self.pen.line(flat, fill=tuple(shades[number]), width=line, joint=joint)
            self.body.line(flat, fill=ridges[number], width=line, joint=joint)

    def layer(
        self,
        rng: Rng,
        target: Array,
        angle: Array,
        count: int,
        length: float,
        width: float,
        bristles: int = 8,
        vary: float = 9,
        dry: float = 0.0,
        where: Array | None = None,
    ) -> None:
        """Cover the canvas with ``count`` strokes along ``angle``, coloured by ``target``."""
        steps = 7
        points = np.empty((steps, count, 2))
        points[0] = rng.random((count, 2)) * (N + 40) - 20
        for step in range(1, steps):
            pixel = np.clip(points[step - 1], 0, N - 1).astype(int)
            turn = angle[pixel[:, 1], pixel[:, 0]]
            points[step] = points[step - 1] + np.stack([np.cos(turn), np.sin(turn)], 1) * length / (steps - 1)
        middle = np.clip(points[steps // 2], 0, N - 1).astype(int)
        colours = target[middle[:, 1], middle[:, 0]]
        for number in range(count):
            if where is None or where[middle[number, 1], middle[number, 0]] > rng.random():
                size = width * rng.uniform(0.7, 1.25)
                self.stroke(rng, points[:, number], colours[number], size, bristles, vary, dry)

    def lit(self, strength: float, gloss: float = 0.0) -> Array:
        """The painting with its relief."""
        soft = self.thickness.filter(ImageFilter.GaussianBlur(1.6))
        return relief(to_array(self.image), to_array(soft), strength, gloss)
