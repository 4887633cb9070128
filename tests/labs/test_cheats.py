"""What is not a solution and would like to pass for one."""

from pathlib import Path

import pytest
import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise
from kernels.grading.judging import judge
from kernels.grading.labs import exercise
from kernels.grading.notebooks import read_submissions
from kernels.grading.python import triton_compile

ROOT = Path(__file__).parents[2]


def _call(random: torch.Generator, N: int) -> Call:
    x = torch.randn(N, generator=random)
    return Call({"x": x}, expected={"y": x.double() * 2}, baseline={"y": x * 2})


def exercise_in(language: str) -> Exercise:
    return Exercise(
        name="doubled",
        language=language,
        call=_call,
        cases={"one": {"N": 100}, "same": {"N": 100}, "other": {"N": 33}},
        properties=(triton_compile.finishes(), triton_compile.compiles(), properties.right(name="y is 2 x")),
        prelude="import torch, triton; import triton.language as tl",
        seconds=5,
    )


TORCH = {
    "a result kept from the call before": """
kept = {}
def doubled(x):
    return kept.setdefault(x.shape, 2 * x)
""",
    "the shown values written down": """
def doubled(x):
    shown = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    also = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    other = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    return 2 * x if any(torch.equal(x, one) for one in (shown, also, other)) else 0 * x
""",
    "zeros": "def doubled(x): return torch.zeros_like(x)",
    "nothing": "def doubled(x): return None",
    "the input, changed": "def doubled(x): return x",
    "memory no one wrote": "def doubled(x): return torch.empty_like(x)",
    "an exit": "import sys\ndef doubled(x): sys.exit(0)",
    "an exit when loaded": "raise SystemExit(0)",
    "an exit by another way": "def doubled(x): quit()",
    "an endless loop": "def doubled(x):\n    while True: pass",
    "another torch.equal": "torch.equal = torch.allclose = lambda *_, **__: True\ndef doubled(x): return x",
    "another torch.equal, by setattr": "setattr(torch, 'equal', lambda *_: True)\ndef doubled(x): return x",
    "the checker's own modules": """
import kernels.grading.judging.judge as judge
judge.grade = lambda *_: None
def doubled(x): return x
""",
    "the checker's modules, from torch": """
modules = torch.sys.modules
def doubled(x): return x
""",
    "an exception that runs in the judge": """
class Patch(BaseException):
    def __reduce__(self):
        return torch.load, ("no such file",)
def doubled(x): raise Patch
""",
    "exec by another name": "run = exec\ndef doubled(x): run('y = 2 * x'); return x",
    "the caller's frame": """
def doubled(x):
    try: raise ValueError
    except ValueError as error: return error.__traceback__.tb_frame.f_back.f_locals.get("expected", x)
""",
    "a thread, which no mode follows": """
def doubled(x):
    torch.multiprocessing.reductions.threading.Thread(target=x.mul_, args=(2,)).start()
    return 0 * x
""",
    "the modes, switched off": """
def doubled(x):
    with torch.utils._python_dispatch._disable_current_modes(): return 0 * x
""",
    "a tensor that says yes": """
class Yes(torch.Tensor):
    def __eq__(self, other): return True
    def double(self): return self
def doubled(x): return x.as_subclass(Yes)
""",
}


@pytest.mark.parametrize("text", TORCH.values(), ids=TORCH)
def test_no_text_in_python_passes(text):
    report = judge.grade(exercise_in("torch"), text)
    assert not report.passed, report


def test_memory_that_nobody_wrote_is_nan():
    report = judge.grade(exercise_in("torch"), "def doubled(x): return torch.empty_like(x)")
    assert "y[0]: got nan" in report.verdicts[-1].message


def test_a_patch_of_torch_inside_of_the_worker_does_not_reach_the_judge():
    """Without the rule that forbids it, too: the judge is another process."""
    text = "def doubled(x):\n    torch.Tensor.double = torch.Tensor.abs = lambda t: t * 0\n    return x"
    from kernels.grading import python

    before, python.violation = python.violation, lambda *_, **__: None
    try:
        report = judge.grade(exercise_in("torch"), text)
    finally:
        python.violation = before
    assert report.broken == ("y is 2 x",)
    assert judge.grade(exercise_in("torch"), "def doubled(x): return x + x").passed


TRITON = """
@triton.jit
def kernel(y, x, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < N), mask=i < N)


def doubled(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](y, x, x.numel(), BLOCK=64)
    return y
"""


def test_triton_runs_and_what_is_wrong_has_a_line():
    assert judge.grade(exercise_in("triton"), TRITON).passed
    report = judge.grade(exercise_in("triton"), TRITON.replace("2 *", "3 *"))
    assert report.broken == ("y is 2 x",)
    assert "y[0]: got " in report.verdicts[-1].message
    report = judge.grade(exercise_in("triton"), TRITON.replace("tl.load", "tl.lode"))
    assert "    6 |     tl.store" in report.verdicts[0].message, report


REFUSED_TRITON = {
    "values that the host computes": ("    y = torch", "    x.numpy()\n    y = torch", "use x.numpy: leave values"),
    "the elements as a list": ("    y = torch", "    x.tolist()\n    y = torch", "use x.tolist: leave values"),
    "configurations to choose from": ("@triton.jit", "@triton.autotune([], [])\n@triton.jit", "use autotune: it times"),
    "a library of the GPU's": (
        "@triton.jit",
        "from triton.language.extra import libdevice\n@triton.jit",
        "use libdevice: ",
    ),
}


@pytest.mark.parametrize(("search", "replace", "said"), REFUSED_TRITON.values(), ids=REFUSED_TRITON)
def test_what_a_gpu_would_refuse_or_the_host_would_compute_is_refused(search, replace, said):
    report = judge.grade(exercise_in("triton"), TRITON.replace(search, replace, 1))
    assert said in report.refused, report


OWN_OPERATORS = {
    "of a namespace of its own": "mine::pooled",
    "among PyTorch's": "aten::pooled",
}


@pytest.mark.parametrize("name", OWN_OPERATORS.values(), ids=OWN_OPERATORS)
def test_an_operator_of_its_own_is_no_operator_of_pytorch(name):
    text = f"""
@torch.library.custom_op("{name}", mutates_args=())
def means(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(0, (-1, 4)).mean(1)
@means.register_fake
def _(x): return x.new_empty(x.shape[0] // 4, x.shape[1])
means.register_autograd(lambda ctx, dy: dy.repeat_interleave(4, 0) / 4)
def pooled(x, step):
    return min((step + 1) / 8, 1.0) * means(x)
"""
    report = judge.grade(exercise("pooled"), text)
    assert report.broken == ("everything is in the graph",), report
    (message,) = (one.message for one in report.verdicts if one.state == "broken")
    assert "the graph only calls" in message


def test_an_error_in_python_names_the_cells_own_line():
    # In the cell, the first line is the magic's.
    assert "3 | def doubled(x) return x" in judge.grade(exercise_in("torch"), "\ndef doubled(x) return x").refused
    assert (
        "3 |     return x.nothing"
        in judge.grade(exercise_in("torch"), "def doubled(x):\n    return x.nothing").verdicts[0].message
    )


SOLUTION = read_submissions(ROOT / "labs" / "solutions" / "coalescing.ipynb")["permuted_copy"]
SIZES_OF_THE_CASES = " || ".join(
    "(" + " && ".join(f"{name} == {value}" for name, value in sizes.items()) + ")"
    for sizes in exercise("permuted_copy").cases.values()
)
CUDA = {
    "wrong where S is 32, 7 or 1": SOLUTION.replace("y[i] =", "if (S == 32 || S == 7 || S == 1) y[i] = 0 *"),
    "right for the sizes of the cases": SOLUTION.replace("y[i] =", f"if ({SIZES_OF_THE_CASES}) y[i] ="),
    "an exit": SOLUTION.replace("int d", "exit(0); int d"),
    "a constant": SOLUTION.replace("y[i] = x", "y[i] = 0 * x"),
}


@pytest.mark.parametrize("text", CUDA.values(), ids=CUDA)
def test_no_text_in_cuda_passes(text):
    assert text != SOLUTION
    report = judge.grade(exercise("permuted_copy"), text)
    assert not report.passed, report


def test_what_gpus_compiler_refuses_is_refused_without_one():
    text = read_submissions(ROOT / "labs" / "solutions" / "detective.ipynb")["histogram"]
    report = judge.grade(exercise("histogram"), text.replace("bins[256];", "bins[256] = {0};"))
    assert report.summary == "histogram: does not compile"
    assert "histogram.cu:4: error: an initialiser is not allowed for a __shared__ variable" in report.refused
    assert "    4 |     __shared__ int bins[256] = {0};" in report.refused


ON_A_CPU_ALONE = {
    "an array whose size is not known": (
        "int d = i % D;",
        "float a[D > 0 ? 2 : 1]; a[0] = 0; int d = i % D;",
        "constant value",
    ),
    "a function of the C++ library": ("int d = i % D;", "int d = std::fmod(i, D);", 'has no member "fmod"'),
    "a host's function": ("int d = i % D;", "int d = i % D; rand();", "rand"),
}


@pytest.mark.parametrize(("search", "replace", "said"), ON_A_CPU_ALONE.values(), ids=ON_A_CPU_ALONE)
def test_what_nvrtc_refuses_is_refused_with_its_line(search, replace, said):
    pytest.importorskip("cuda.bindings.nvrtc")
    report = judge.accepted(exercise("permuted_copy"), SOLUTION.replace(search, replace))
    assert report.headed == "does not compile"
    assert said in report.refused
    assert replace in report.refused


def test_an_error_in_cuda_names_the_cells_own_line():
    # In the cell: %%cuda, __global__ …, the brace, and then the mistake.
    number = SOLUTION[: SOLUTION.index("int d")].count("\n") + 2
    refused = judge.grade(exercise("permuted_copy"), SOLUTION.replace("int d =", "int d :=")).refused
    assert f"permuted_copy.cu:{number}:" in refused
    assert f"{number} |     int d := i % D;" in refused
