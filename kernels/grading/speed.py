"""How fast a submission is on a GPU, beside PyTorch's own way of doing the same."""

from __future__ import annotations

import torch

from kernels import machine, measure, worker
from kernels.cuda import RawModule
from kernels.grading import in_worker
from kernels.grading.labs import exercise
from kernels.measure.race import Race


def race(name: str, text: str) -> Race | str:
    """Times of "yours" and "torch" at the bench sizes of the exercise, in turns; in a GPU's worker. Or why there are none.

    It judges nothing: `check` does. A submission whose values differ from PyTorch's gets no time.
    """
    if machine.here().device == "cpu":
        return "There is no GPU here, and the time of a kernel on a CPU says nothing about it."
    if exercise(name).bench is None:
        return f"{name} is not timed: nothing of PyTorch's does the same."
    try:
        return worker.run(_race, name, text, seconds=60, device="cuda")
    except (ArithmeticError, worker.WorkerError) as error:
        return f"No time: {error}"


def _race(name: str, text: str) -> Race:
    asked = exercise(name)
    call = asked.call(torch.Generator().manual_seed(0), **asked.bench)
    args = {key: arg.cuda() if isinstance(arg, torch.Tensor) else arg for key, arg in call.args.items()}
    outputs = [args[key] for key in call.expected if key in args]
    if asked.language == "cuda":
        kernel = RawModule(code=asked.source(text)).get_function(name)

        def yours() -> object:
            kernel(call.grid, call.block, tuple(args.values()), call.shared_mem)
            return outputs
    else:
        function = in_worker.load(name, asked.source(text))

        def yours() -> object:
            return function(**args)

    def torchs() -> object:
        result = asked.peer(**args)
        return [result] if isinstance(result, torch.Tensor) and asked.language == "cuda" else result

    return measure.race({"yours": yours, "torch": torchs}, "cuda")
