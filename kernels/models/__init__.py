"""Whole models, small enough to train here: of language."""

from kernels.models.language import LanguageModel
from kernels.models.weights import pretrained

__all__ = ["LanguageModel", "pretrained"]
