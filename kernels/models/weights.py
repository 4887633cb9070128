"""The language model that was trained once on a GPU, with its weights in bfloat16."""

from pathlib import Path

import torch

from kernels.models.corpus import symbols
from kernels.models.language import LanguageModel

PATH = Path(__file__).with_name("language.pt")


def pretrained(path: Path = PATH) -> LanguageModel:
    """The language model of the course's own prose, in float32 on the CPU, ready to predict.

    Its tokens are characters: `kernels.models.corpus.encode` and `decode`.

    Raises:
        FileNotFoundError: the weights are not there, and how they are made.
        ValueError: they were trained on other characters than the corpus has.
    """
    if not path.exists():
        raise FileNotFoundError(
            f"path: there are no weights at {path}; on a GPU, `python -m book.recorders.language_model "
            "book/results/language_model` trains and writes them"
        )
    stored = torch.load(path, weights_only=True)
    if stored["symbols"] != symbols():
        raise ValueError(f"path: the weights at {path} are for other characters than those of the corpus; train again")
    model = LanguageModel(**stored["sizes"])
    model.load_state_dict(stored["weights"])  # copied into float32
    return model.eval()


def save(model: LanguageModel, sizes: dict[str, int], path: Path) -> None:
    """Write weights, in bfloat16, as `pretrained` reads them. sizes: what the model was made with."""
    weights = {name: value.detach().to("cpu", torch.bfloat16) for name, value in model.state_dict().items()}
    torch.save({"sizes": sizes, "symbols": symbols(), "weights": weights}, path)
