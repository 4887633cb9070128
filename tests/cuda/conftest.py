"""Every test that takes `device` runs on the CPU, there in random orders too, and on a GPU where there is one."""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from kernels.cuda import RawModule, cpu, order
from kernels.cuda.template import TYPES

_NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda is not available")


@pytest.fixture(params=["cpu", "cpu-order1", "cpu-order2", pytest.param("cuda", marks=_NO_GPU)])
def device(request):
    name, _, seed = request.param.partition("-order")
    with order(int(seed)) if seed else contextlib.nullcontext():
        yield name


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=_NO_GPU)])
def compiling_device(request):
    """For what comes to the same in whatever order: a compiler's error, which is not cached, an endless loop."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels(tmp_path_factory):
    """A cache of the tests' own, so that every run compiles, but not every process of a run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    patch = pytest.MonkeyPatch()
    patch.setenv("KERNELS_CACHE", str(folder / "cuda-cache"))
    yield folder / "cuda-cache"
    patch.undo()


@pytest.fixture(scope="session")
def nvrtc():
    """nvrtc(code, options, names): compiles kernels for sm_90 by NVIDIA's compiler, which needs no GPU."""
    core = pytest.importorskip("cuda.core", reason="needs NVIDIA's compiler: cuda.core and cuda-toolkit[nvrtc]")
    from kernels.cuda.cpu.headers import cuda_headers
    from kernels.cuda.source import NVRTC_HEADERS

    def compile(code, options, names):
        defined = [option[2:] for option in options if option.startswith("-D")]
        included = [option[2:] for option in options if option.startswith("-I")]
        folders = [*included, *(str(folder) for folder in (NVRTC_HEADERS, *cuda_headers()))]
        settings = core.ProgramOptions(std="c++17", arch="sm_90", define_macro=defined or None, include_path=folders)
        return core.Program(code, "c++", settings).compile("cubin", name_expressions=names)

    return compile


@pytest.fixture
def machine_code(nvrtc, tmp_path):
    """machine_code(path, kernel, dtype, parameters, options): what NVIDIA's compiler makes of it for sm_90."""
    triton = pytest.importorskip("triton")
    # Triton's may be older than the compiler.
    nvdisasm = shutil.which("nvdisasm") or Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"

    def disassembled(path, kernel, dtype, parameters, *options):
        text = RawModule(path=path)._source.code
        values = ", ".join(str(int(parameter)) for parameter in parameters)
        cubin = tmp_path / "kernel.cubin"
        cubin.write_bytes(bytes(nvrtc(text, options, [f"{kernel}<{TYPES[dtype]}, {values}>"]).code))
        return subprocess.run([nvdisasm, "-hex", "-c", cubin], capture_output=True, text=True, check=True).stdout

    return disassembled


@pytest.fixture
def nvrtc_too(request, monkeypatch, compiled_kernels):
    """Every kernel that a test runs on the CPU is also compiled by NVIDIA's compiler, where that is installed: once for a
    text, which tests run in several orders."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
        return
    compile, load = request.getfixturevalue("nvrtc"), cpu.load

    def load_and_compile(source):
        functions = load(source)
        given = source.for_nvrtc, source.options, source.names
        compiled = compiled_kernels / f"nvrtc-{hashlib.sha256(repr(given).encode()).hexdigest()}"
        if not compiled.exists():
            compile(*given)
            compiled.touch()
        return functions

    monkeypatch.setattr(cpu, "load", load_and_compile)
