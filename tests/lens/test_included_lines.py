"""Lines of a header that the source includes: the lens reports them as the header's."""

import torch

from kernels import lens
from kernels.cuda import RawModule

FIRST = "__device__ float first(const float* x)\n{\n    return x[0];\n}\n"


def kernel(folder, code, **headers):
    for name, text in headers.items():
        (folder / f"{name}.cuh").write_text(text)
    return RawModule(code=code, path=folder / "k.cu").get_function("k")


def test_a_trace_names_the_file_of_each_line(tmp_path):
    code = """#include "first.cuh"
extern "C" __global__ void k(const float* x, float* y)
{
    y[threadIdx.x] = x[threadIdx.x] + first(x);
}
"""
    found = lens.trace(kernel(tmp_path, code, first=FIRST), (1,), (32,), (torch.arange(32.0), torch.zeros(32)))
    assert [(one.line, one.kind) for one in found.accesses] == [(4, "load"), (4, "store"), ("first.cuh:3", "load")]
    assert found.source == code and found.headers == {"first.cuh": FIRST}
    assert found.line("first.cuh:3")[0].sectors == 1 and not found.line(3)
    assert type(found).from_json(found.as_json()) == found
    rows = found._repr_html_().split("<tr")
    (header,) = [number for number, row in enumerate(rows) if "<b>first.cuh</b>" in row]
    (load,) = [number for number, row in enumerate(rows) if "return x[0];" in row]
    assert header < load and "1 sector" in rows[load] and "●" in rows[load]
    assert "load of x" in lens.figure(found, line="first.cuh:3").alt


def test_a_load_that_is_taken_out_of_a_loop_keeps_its_file(tmp_path):
    """The header's line is no line of the file."""
    code = """#include "first.cuh"
extern "C" __global__ void k(const float* x, float* y, int n)
{
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += first(x) * i;
    y[threadIdx.x] = sum;
}
"""
    loaded = kernel(tmp_path, code, first="\n" * 20 + FIRST)
    found = lens.trace(loaded, (1,), (32,), (torch.arange(32.0), torch.zeros(32), 5))
    assert [one.line for one in found.accesses] == [6, "first.cuh:23"]


def test_findings_name_the_file_of_each_line(tmp_path):
    header = """__device__ void put(float* x, int i)
{
    x[i] = i;
    if (i < 3) __syncthreads();
}
"""
    code = """#include "put.cuh"

extern "C" __global__ void k(float* x)
{
    put(x, threadIdx.x / 2);
    x[0] = 1;
}
"""
    found = lens.trace(kernel(tmp_path, code, put=header), (1,), (32,), (torch.zeros(8),))
    lines = {one.kind: one.lines for one in found.findings}
    assert lines == {
        "out of bounds": ("put.cuh:3",),
        "race": ("put.cuh:3", 6),
        "divergent barrier": ("put.cuh:4",),
    }
    assert "line put.cuh:3: out of bounds" in "\n".join(map(str, found.findings))
