"""Whole models, small enough to train here: of language, images and graphs."""

from kernels.models.convolution import ConvNet
from kernels.models.graph import GraphNetwork
from kernels.models.language import LanguageModel
from kernels.models.vision import VisionTransformer
from kernels.models.weights import pretrained

__all__ = ["ConvNet", "GraphNetwork", "LanguageModel", "VisionTransformer", "pretrained"]
