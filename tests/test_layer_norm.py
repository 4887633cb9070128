"""What is special to layer norm: loops over many rows, and long sums down the columns."""

import pytest
import torch

import kernels
from kernels.check import check
from kernels.operation import Case
from kernels.ops.layer_norm import triton_backward, triton_backward_wide

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OP = kernels.operation("layer_norm")


@pytest.mark.parametrize("key", ["triton/partials", "triton/prefetch"])
def test_programs_walk_over_many_rows(key, monkeypatch):
    """As on a GPU with one multiprocessor: every loop over rows goes round several times."""
    for module in (triton_backward, triton_backward_wide):
        monkeypatch.setattr(module, "multiprocessors", lambda device: 1)
    cases = (Case((70, 33)), Case((35, 1_500), "bfloat16"), Case((9, 8_200), "float16"))
    assert not [result for result in check(OP, (OP[key],), cases, DEVICE) if result.failure]


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 elements take a GPU's memory and speed")
@pytest.mark.parametrize("variant", [v for v in OP.variants if v.level >= 4], ids=lambda v: v.key)
def test_sums_over_many_rows_do_not_stop_growing(variant):
    """Row by row, float32 counts ones up to 2^24 and no further: the next one is lost in rounding. Partial sums are short."""
    M, N = 2**31 // 64 + 5, 64
    inputs = OP.inputs(shape=(M, N), dtype="bfloat16", device=DEVICE)
    ones = {"y": torch.ones((), device=DEVICE, dtype=torch.bfloat16).expand(M, N)}
    dbias = OP.results(variant.fn, inputs, ["bias"], ones)["dbias"]
    total = float(M if variant.deterministic else min(M, 2**24))
    torch.testing.assert_close(dbias.float(), torch.full((N,), total, device=DEVICE), rtol=1e-2, atol=0)
