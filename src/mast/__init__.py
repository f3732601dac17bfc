"""mast: regional multi-style transfer with a frozen diffusion model.

import mast
result = mast.stylize(mast.Job("photo.jpg", [mast.Region("waves.png", mask="sky.png"),
mast.Region("mosaic.png")])) result.save("out.png")
"""

from .backbone.backbone import Backbone
from .backbone.load import load
from .job import Cancelled, InputError, Job, Progress, Region, Result, Settings
from .methods import METHODS, Mast, Method, Reconstruct, SharedAttention
from .pipeline.stylize import default_method, default_settings, stylize

__all__ = [
    "METHODS",
    "Backbone",
    "Cancelled",
    "InputError",
    "Job",
    "Mast",
    "Method",
    "Progress",
    "Reconstruct",
    "Region",
    "Result",
    "Settings",
    "SharedAttention",
    "default_method",
    "default_settings",
    "load",
    "stylize",
]
