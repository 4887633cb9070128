"""What is installed here, and what each missing piece costs."""

import importlib.metadata
import platform
import subprocess
from dataclasses import dataclass

import torch

from kernels.machine import compiler, interpreting


@dataclass(frozen=True)
class Finding:
    """One line: what it is, what was found (None if missing), what is lost without it.

    `warning` marks something found that does harm; `cost` then says which.
    """

    name: str
    found: str | None
    cost: str
    warning: bool = False


def findings() -> list[Finding]:
    """Python, compiler, packages, GPU, and the unrelated package that is also called `kernels`."""
    foreign = _version("kernels")
    result = [
        Finding("Python", platform.python_version(), ""),
        Finding("C++ compiler", _compiler(), "level 3 and, without a GPU, CUDA C do not run: install g++ or clang"),
        Finding("torch", torch.__version__, ""),
        Finding(
            "triton", _triton(), "level 4 does not run: Triton has wheels for Linux only; use the container or WSL2"
        ),
        Finding("GPU", _gpu(), "kernels run on the CPU: right results and counters, but no GPU times"),
        Finding("CuPy", _version("cupy-cuda13x"), "level 5 does not run on a GPU; without a GPU it is not needed"),
        Finding("NVRTC", _version("nvidia-cuda-nvrtc"), "the compile-only tests of the kernels cannot run"),
        Finding(
            "CUDA headers", _version("nvidia-cuda-runtime"), "float16 and bfloat16 in CUDA C do not compile on a CPU"
        ),
        Finding("JupyterLab", _version("jupyterlab"), "`make lab` does not start"),
        Finding("Jupyter Book", _version("jupyter-book"), "`make book` does not build"),
        Finding("nbval", _version("nbval"), "notebooks are not tested"),
        Finding("Plotly", _version("plotly"), "figures in chapters are not drawn"),
    ]
    if foreign:
        cost = "an unrelated package of the same import name: pip uninstall kernels, then install this one again"
        result.append(Finding("PyPI's `kernels`", foreign, cost, warning=True))
    else:
        result.append(Finding("PyPI's `kernels`", "not here, as it should be", ""))
    return result


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _compiler() -> str | None:
    command = compiler()
    if command is None:
        return None
    run = subprocess.run([*command, "--version"], capture_output=True, text=True)
    return run.stdout.splitlines()[0] if run.returncode == 0 else None


def _triton() -> str | None:
    version = _version("triton")
    return version and f"{version}, {'interpreting' if interpreting() else 'compiling'}"


def _gpu() -> str | None:
    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()}, sm_{major}{minor}"
