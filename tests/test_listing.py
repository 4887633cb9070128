"""Source shown in a notebook, whole or function by function."""

import subprocess
import sys

import pytest

from kernels.listing import Listing
from kernels.measure.recorded.accesses import CASES

SOURCE = """#include "rows.cuh"

// Doubles one value.
__device__ float twice(float value);

// Doubles one value (see "half").
__device__ float twice(float value) { return 2 * value; }
// Doubles all: twice( is called once {
template <typename T>
__global__ void __launch_bounds__(256)
    doubled(T* x)
{
    if (x) {
        x[0] = twice(x[0]);
    }
}

struct Vector {
    float half() const { return twice(x) / 4; }
    float x;
};
"""


def test_it_is_its_source_as_text_and_fenced_where_it_is_coloured():
    listing = Listing("int i;\n")
    assert repr(listing) == str(listing) == "int i;"
    assert listing._repr_markdown_() == "```cpp\nint i;\n```"
    assert Listing("x = 1", "python")._repr_markdown_() == "```python\nx = 1\n```"


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("twice", '// Doubles one value (see "half").', "{ return 2 * value; }"),
        ("doubled", "// Doubles all: twice( is called once {", "    }\n}"),
        ("half", "float half() const {", "{ return twice(x) / 4; }"),
    ],
)
def test_a_function_comes_with_the_lines_above_it(name, first, last):
    found = repr(Listing.from_kernel(SOURCE, name))
    assert found.startswith(first)
    assert found.endswith(last)


def test_several_functions_of_several_files(tmp_path):
    (tmp_path / "a.cu").write_text("void a()\n{\n}\n")
    (tmp_path / "b.cu").write_text("void b()\n{\n}\n")
    listing = Listing.from_kernel((tmp_path / "a.cu", tmp_path / "b.cu"), "b", "a")
    assert repr(listing) == "void b()\n{\n}\n\nvoid a()\n{\n}"


@pytest.mark.parametrize("name", ["tripled", "half_"])
def test_a_function_that_is_not_defined_is_an_error(name):
    with pytest.raises(LookupError, match=name):
        Listing.from_kernel(SOURCE, name)


@pytest.mark.parametrize("group", CASES)
def test_every_case_shows_its_kernel(group):
    for case in CASES[group].values():
        name = case.launch().kernel.name.split("<")[0]
        assert f"{name}(" in repr(case.function())
        assert repr(case.function()).endswith("}")


def test_a_triton_kernel_is_shown_with_its_decorator():
    from kernels.ops.layer_norm import triton_forward

    shown = repr(Listing.from_python(triton_forward.layer_norm_row_kernel))
    assert shown.startswith("@triton.jit")


def test_ipython_shows_the_source_alone():
    script = "from IPython.core.interactiveshell import InteractiveShell as S; from kernels.listing import Listing; "
    script += "print(S.instance().display_formatter.format(Listing('int i;'))[0])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "{'text/plain': 'int i;', 'text/markdown': '```cpp\\nint i;\\n```'}"
