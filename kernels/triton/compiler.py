"""Triton's compiler without a GPU: a launch is compiled for a GPU that is named, and not run.

For a process in which Triton was imported as a compiler, TRITON_INTERPRET=0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernels.hardware import REFERENCE, WARP, Target

if TYPE_CHECKING:
    from triton.backends.compiler import GPUTarget


def compiled(
    kernel: Any, args: Sequence[Any], options: Mapping[str, Any], target: Target | GPUTarget = REFERENCE
) -> Any:
    """What `kernel[grid](*args, **options)` would run on a GPU of that target, which may be one of Triton's own for another
    maker's GPU: Triton's own record, with the
    texts of all stages in `asm`.

    Raises what Triton's compiler does.
    """
    import triton
    from triton.compiler import ASTSource

    signature, constants, attributes, chosen = specialised(kernel, args, options, target)
    return triton.compile(ASTSource(kernel, signature, constants, attributes), target=_gpu(target), options=chosen)


def lowered(kernel: Any, args: Sequence[Any], options: Mapping[str, Any], target: Target = REFERENCE) -> Any:
    """As `compiled`, as far as Triton's own stages go: its representation for GPUs, which is not yet a program.

    Raises what Triton's compiler does; ValueError: more warps than a block can have.
    """
    from triton._C.libtriton import ir
    from triton.compiler import ASTSource, make_backend

    signature, constants, attributes, chosen = specialised(kernel, args, options, target)
    gpu = _gpu(target)
    backend, context, stages = make_backend(gpu), ir.context(), {}
    source, parsed = ASTSource(kernel, signature, constants, attributes), backend.parse_options(chosen)
    if parsed.num_warps > target.warps_per_block:
        most = target.warps_per_block
        raise ValueError(f"num_warps is {parsed.num_warps}, and a block of a GPU has {most} warps at most")
    ir.load_dialects(context)
    backend.load_dialects(context)
    backend.add_stages(stages, parsed, source.language)
    module = source.make_ir(gpu, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)
    metadata = {"target": gpu, **vars(parsed)}
    for stage in ("ttir", "ttgir"):
        module = stages[stage](module, metadata)
    return module


def specialised(
    kernel: Any, args: Sequence[Any], options: Mapping[str, Any], target: Target | GPUTarget = REFERENCE
) -> tuple[dict[str, str], dict[tuple, Any], dict[tuple, list], dict[str, Any]]:
    """What Triton's launcher derives from a launch: the types by parameter, the constants and what is known of other
    arguments (divisible by 16) by place, and the compiler's options."""
    from triton.compiler import make_backend
    from triton.runtime.jit import create_function_from_signature

    backend = make_backend(_gpu(target))
    bound, specialization, others = create_function_from_signature(kernel.signature, kernel.params, backend)(
        *args, **options
    )
    chosen, signature, constants, known = kernel._pack_args(backend, dict(options), bound, specialization, others)
    return signature, constants, {place: attributes for place, attributes in known.items() if attributes}, vars(chosen)


def _gpu(target: Target | GPUTarget) -> GPUTarget:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", target.capability, WARP) if isinstance(target, Target) else target
