"""CUDA C in the styles that teaching material is written in, each kernel with a launch and a reference.

A `.cu` file holds the kernels of one topic. The modules beside them say how each is launched and what it must compute.
"""
