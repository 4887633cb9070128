"""Records of what is no function of tensors: optimizers, models, and functions that several processes run together.

As an operation's, they are data that tests, demos and the book's tables are driven by. What each gives is held against its
twin, which computes the same in another way, by the rule of `kernels.tolerance`: the twin in float64 is the reference, and
the twin in the same dtype is the baseline. A check returns what `kernels.tolerance.compare` does: the largest error ratio,
and what is wrong, or None.
"""

import copy
import datetime
import math
import multiprocessing
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernels.operation import Tensors, Variant
from kernels.tolerance import compare

RANK_SECONDS = 60  # that a rank waits for the others


@dataclass(frozen=True)
class OptimizerRecord:
    """An optimizer: it updates parameters in place, from their gradients.

    Args:
        name: the field's own, such as "adamw".
        variants: `fn` takes a list of parameters and returns an optimizer with `step()`.
        twin: the same from torch.optim.
        shapes: of the parameters that are updated together.
        dtypes: torch's names; the parameters have one at a time.
        steps: how many are taken and judged.
        wrong: deliberately wrong variants, which the check must reject.
    """

    name: str
    variants: tuple[Variant, ...]
    twin: Callable[[list[torch.Tensor]], torch.optim.Optimizer]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    steps: int
    wrong: tuple[Variant, ...]


def check_optimizer(record: OptimizerRecord, variant: Variant, device: str = "cpu") -> tuple[float, str | None]:
    """Compare the parameters with the twin's after each step, in each of the record's dtypes. All begin a step with the
    variant's parameters, so that a result has been rounded once; their states are their own."""
    found = []
    for name in record.dtypes:
        random = torch.Generator().manual_seed(0)
        shapes, dtypes = record.shapes, (getattr(torch, name), torch.float64, getattr(torch, name))
        # By whom they are updated: the variant, the reference, the baseline.
        every = [[torch.zeros(shape, dtype=d, device=device).requires_grad_() for shape in shapes] for d in dtypes]
        for one in every[0]:
            one.detach().copy_(torch.randn(one.shape, generator=random))
        makers = variant.fn, record.twin, record.twin
        optimizers = [make(parameters) for make, parameters in zip(makers, every, strict=True)]
        for step in range(record.steps):
            for alike in zip(*every, strict=True):
                gradient = torch.randn(alike[0].shape, generator=random).to(alike[0])
                for one in alike:
                    one.detach().copy_(alike[0].detach())
                    one.grad = gradient.to(one.dtype, copy=True)
            for optimizer in optimizers:
                optimizer.step()
            updated = [{f"parameter {i}": one.detach() for i, one in enumerate(each)} for each in every]
            ratio, failure = _compared(*updated)
            found.append((ratio, failure and f"{name}, step {step + 1}, {failure}"))
    return max(found, key=lambda one: one[0])


@dataclass(frozen=True)
class ModelRecord:
    """A module and a twin of the same mathematics: fused and naive, checkpointed and not.

    Args:
        name: such as "transformer_block".
        build: seed → the module.
        twin: seed → its twin; both have the same state dict.
        batch: seed → what the module is called with.
        from_torch: what in the module is still torch's own, in words, such as "scaled_dot_product_attention".
        wrong: by name, deliberately wrong functions in place of `build`, which the check must reject.
    """

    name: str
    build: Callable[[int], torch.nn.Module]
    twin: Callable[[int], torch.nn.Module]
    batch: Callable[[int], tuple[torch.Tensor, ...]]
    from_torch: tuple[str, ...]
    wrong: Mapping[str, Callable[[int], torch.nn.Module]]


def check_model(
    record: ModelRecord, build: Callable[[int], torch.nn.Module], seed: int = 0, device: str = "cpu"
) -> tuple[float, str | None]:
    """Compare what `build` makes with the twin: the entries of its state dict; then, with the twin's weights, its outputs, the
    gradients of its parameters and inputs, and its state after the call, so that buffers are updated as often."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # for a `build` that leaves the weights to torch's own initialisation
        module, twin = build(seed).to(device), record.twin(seed).to(device)
    batch = tuple(one.to(device) for one in record.batch(seed))
    entries, expected = ({name: value.shape for name, value in one.state_dict().items()} for one in (module, twin))
    if entries != expected:
        differing = sorted(dict(entries.items() ^ expected.items()))
        return math.inf, f"its state dict differs from the twin's in {', '.join(differing)}"
    module.load_state_dict(twin.state_dict())
    exact = copy.deepcopy(twin).double()
    exact_batch = [one.double() if one.is_floating_point() else one for one in batch]
    return _compared(_model_results(module, batch), _model_results(exact, exact_batch), _model_results(twin, batch))


def check_model_in_float64(
    record: ModelRecord, build: Callable[[int], torch.nn.Module], seed: int = 0, device: str = "cpu"
) -> tuple[float, str | None]:
    """As `check_model`, with both in float64: for whole models, in which the rounding of many operators adds up differently.
    An error may be 1e-10 of the largest value of its result, and of 1."""
    module, twin = build(seed).to(device).double(), record.twin(seed).to(device).double()
    entries, expected = ({name: value.shape for name, value in one.state_dict().items()} for one in (module, twin))
    if entries != expected:
        return (
            math.inf,
            f"its state dict differs from the twin's in {', '.join(sorted(dict(entries.items() ^ expected.items())))}",
        )
    module.load_state_dict(twin.state_dict())
    batch = tuple(one.to(device, torch.float64 if one.is_floating_point() else None) for one in record.batch(seed))
    got, reference = _model_results(module, batch), _model_results(twin, batch)
    ratios = {}
    for name, exact in reference.items():
        if exact is not None:
            if got[name] is None or got[name].shape != exact.shape:
                return math.inf, f"{name}: there is none of the expected shape, {tuple(exact.shape)}"
            error = float((got[name] - exact).abs().max())
            ratios[name] = error / (1e-10 * max(1.0, float(exact.abs().max()))) if math.isfinite(error) else math.inf
    worst = max(ratios, key=lambda name: ratios[name])
    return ratios[worst], None if ratios[worst] <= 1 else f"{worst} differs, by {ratios[worst]:.3g} × what is allowed"


def _model_results(module: torch.nn.Module, batch: tuple[torch.Tensor, ...]) -> Tensors:
    batch = [one.detach().requires_grad_(one.is_floating_point()) for one in batch]
    returned = module(*batch)
    outputs = returned if isinstance(returned, tuple) else (returned,)
    # The same gradients in every dtype: what bfloat16 holds, the others do.
    random = torch.Generator().manual_seed(1)
    incoming = [torch.randn(one.shape, generator=random).bfloat16().to(one) for one in outputs]
    leaves = dict(module.named_parameters()) | {f"input {i}": one for i, one in enumerate(batch) if one.requires_grad}
    gradients = torch.autograd.grad(outputs, list(leaves.values()), incoming, allow_unused=True)
    found = {f"output {number}": output.detach() for number, output in enumerate(outputs)}
    found |= {f"gradient of {name}": gradient for name, gradient in zip(leaves, gradients, strict=True)}
    return found | {f"state {name}": value.detach() for name, value in module.state_dict().items()}


@dataclass(frozen=True)
class ProcessRecord:
    """A function that several processes, called ranks, run together.

    Args:
        name: such as "ring_attention".
        fn: (rank, world) → tensors by name; at the top level of a module. Its ranks are joined by `torch.distributed`.
        twin: (rank, world, dtype) → the same, computed in that dtype by one process alone.
        dtype: torch's name of what `fn` computes in.
        world: how many ranks.
        wrong: by name, deliberately wrong functions in place of `fn`, which the check must reject.
    """

    name: str
    fn: Callable[[int, int], Tensors]
    twin: Callable[[int, int, torch.dtype], Tensors]
    dtype: str
    world: int
    wrong: Mapping[str, Callable[[int, int], Tensors]]


def check_process(record: ProcessRecord, fn: Callable[[int, int], Tensors]) -> tuple[float, str | None]:
    """Run `fn` on the record's ranks, and compare what each returns with the twin."""
    dtype = getattr(torch, record.dtype)
    found = []
    for rank, got in enumerate(run_ranks(fn, record.world)):
        reference, baseline = (record.twin(rank, record.world, one) for one in (torch.float64, dtype))
        ratio, failure = _compared(got, reference, baseline)
        found.append((ratio, failure and f"rank {rank}, {failure}"))
    return max(found, key=lambda one: one[0])


def run_ranks(fn: Callable[[int, int], Any], world: int) -> list[Any]:
    """What `fn(rank, world)` returns on each of `world` processes of this machine, which gloo joins.

    Raises:
        torch.multiprocessing.ProcessRaisedException: a rank raised, with its traceback; also when it has waited for
            another for RANK_SECONDS.
    """
    # Ranks are copies of a process that has imported this already; how they meet needs a file, and no port.
    multiprocessing.get_context("forkserver").set_forkserver_preload(["kernels.records", "torch.distributed"])
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(_rank, (fn, world, folder), world, start_method="forkserver")
        return [torch.load(f"{folder}/{rank}") for rank in range(world)]


def _rank(rank: int, fn: Callable[[int, int], Any], world: int, folder: str) -> None:
    import torch.distributed as dist

    torch.set_num_threads(1)
    store, seconds = dist.FileStore(f"{folder}/store", world), datetime.timedelta(seconds=RANK_SECONDS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=seconds)
    torch.save(fn(rank, world), f"{folder}/{rank}")
    dist.destroy_process_group()


def _compared(got: Tensors, reference: Tensors, baseline: Tensors) -> tuple[float, str | None]:
    """The worst of several results by name; those that the twin has none of, such as an unused gradient, are left out."""
    if got.keys() != reference.keys():
        return math.inf, f"got {', '.join(got)}, expected {', '.join(reference)}"
    ratios, failures = [0.0], []
    for name, expected in reference.items():
        if expected is not None:
            ratio, failure = compare(got[name], expected, baseline[name], baseline[name].dtype)
            ratios.append(ratio)
            failures += [f"{name}: {failure}"] if failure else []
    return max(ratios), "; ".join(failures) or None
