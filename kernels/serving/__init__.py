"""A model saved with what it may be given, and served on this machine behind a door that checks each request."""

from kernels.serving.batches import Batches
from kernels.serving.door import Input, Refused, read
from kernels.serving.export import Exported, export, load
from kernels.serving.server import serve

__all__ = ["Batches", "Exported", "Input", "Refused", "export", "load", "read", "serve"]
