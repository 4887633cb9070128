"""Backwards of norms whose rows are shared by the blocks of a cluster, which only a GPU of sm_90 or newer has."""

import pytest
import torch

from kernels.check import Truth
from kernels.cuda.kernel import watched
from kernels.machine import has
from kernels.operation import Case, operation

QUEUES = {
    "layer_norm": "layer_norm_backward_vector<",
    "rms_norm": "rms_norm_backward_queue<",
    "add_rms_norm": "add_rms_norm_backward_queue<",
    "layer_norm_gelu": "layer_norm_gelu_backward_queue<",
}


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("N", [8_200, 8_201, 12_294, 16_383, 23_809, 32_761])
def test_blocks_of_a_cluster_share_rows_of_any_width(name, dtype, N):
    """Whole vectors; odd ones, which start at any place within one; a last block with few columns; the widest."""
    if not torch.cuda.is_available() or not has(torch.device("cuda"), "clusters"):
        pytest.skip("needs a GPU of compute capability 9.0: only that has clusters")
    op, case = operation(name), Case((700, N), dtype)
    truth, launches = Truth(op, case, op.inputs(case, "cuda")), []
    assert not truth.judge(op["cuda"]).failure
    with watched(lambda *launch: launches.append(launch[0].name)):  # in place of launching
        truth.judge(op["cuda"])
    assert any(launched.startswith(QUEUES[name]) for launched in launches), launches
