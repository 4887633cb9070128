"""Source in lines that fit a page: broken where an author would, and otherwise the same."""

import ast
import re
from pathlib import Path

import pytest

import kernels
from kernels.narrow import WIDTH, narrow

FOLDER = Path(kernels.__file__).parent / "ops"
CUDA = sorted(FOLDER.glob("*/*.cu"))
TRITON = sorted(FOLDER.glob("*/triton*.py"))


@pytest.mark.parametrize(
    ("language", "source", "lines"),
    [
        (
            "cuda",
            "__global__ void block(const T* x, const T* weight, const T* bias, T* y, long long row_stride, int N,\n"
            "                      float eps)",
            [
                "__global__ void block(const T* x, const T* weight, const T* bias, T* y,",
                "                      long long row_stride, int N, float eps)",
            ],
        ),
        (
            "cuda",
            "    for (int j = threadIdx.x; j < N; j += blockDim.x) sum += exp_for<T>((float)x[j] - largest);",
            [
                "    for (int j = threadIdx.x; j < N; j += blockDim.x)",
                "        sum += exp_for<T>((float)x[j] - largest);",
            ],
        ),
        (
            "cuda",
            "    __syncthreads();  // the next call writes partial[0]: not before everyone has read it",
            ["    // the next call writes partial[0]: not before everyone has read it", "    __syncthreads();"],
        ),
        (
            "cuda",
            "// The sum of `value` over the warp, given to every lane: after step k, each lane holds the\n// sum of all.",
            [
                "// The sum of `value` over the warp, given to every lane: after step k, each",
                "// lane holds the sum of all.",
            ],
        ),
        (
            "python",
            "    h += tl.load(residual_ptr + row * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)",
            [
                "    h += tl.load(residual_ptr + row * residual_stride + columns, mask=inside,",
                "                 other=0.0).to(tl.float32)",
            ],
        ),
    ],
)
def test_lines_are_broken_as_an_author_would(language, source, lines):
    assert narrow(source, language).split("\n") == lines


@pytest.mark.parametrize("language", ["ptx", "text"])
def test_a_language_that_it_does_not_know_stays(language):
    assert narrow("x" * 50 + " " + "y" * 50, language) == "x" * 50 + " " + "y" * 50


def test_what_fits_stays_and_strings_are_not_broken():
    assert narrow("f(a,\n  b);  // c\n", "cuda") == "f(a,\n  b);  // c\n"
    text = f'print("{"word " * 20}")'
    assert narrow(text, "python") == text


def tokens(cuda):
    """The code, and the letters of the comments: what stood at the end of a line may have moved above it."""
    comments = re.findall(r"//(.*)", cuda)
    return re.sub(r"\s|//.*", "", cuda), sorted("".join(comments).replace(" ", ""))


@pytest.mark.parametrize("path", CUDA, ids=lambda path: path.stem)
def test_cuda_says_the_same(path):
    source = path.read_text()
    told = narrow(source, "cuda")
    assert tokens(told) == tokens(source)
    assert [line for line in told.split("\n") if len(line) > WIDTH and "#" not in line] == []


def without_docstrings(source):
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.dump(tree)


@pytest.mark.parametrize("path", TRITON, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_python_means_the_same(path):
    source = path.read_text()
    told = narrow(source, "python")
    assert without_docstrings(told) == without_docstrings(source)
