"""Mistakes in the first edit, and other ways to write it."""

from mutants import Mutant

_LINE = "y[i] = 2 * x[i] + 1;"

MUTANTS = [
    Mutant("scale", "no guard", "if (i < n)", "", "it stays inside its arrays"),
    Mutant("scale", "an endless loop", _LINE, "while (true) y[i] = 2 * x[i] + 1;", "it runs to its end"),
    Mutant("scale", "the first block only", "blockIdx.x * blockDim.x + ", "", "every element of y is written"),
    Mutant("scale", "1 added before", _LINE, "y[i] = 2 * (x[i] + 1);", "y[i] is 2 x[i] + 1"),
    Mutant("scale", "left as it was", _LINE, "y[i] = 2 * x[i];", "y[i] is 2 x[i] + 1"),
]

ACCEPTED = {
    "scale": {
        "a guard that returns": """
__global__ void scale(float* y, float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
    y[i] = value + value + 1;
}
"""
    }
}
