"""Two outputs in float32 of logits in bfloat16, and integers among the inputs."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from kernels.case import Output
from kernels.triton.launch import launch
from toys.toy import cases, normal, toy


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, lse_ptr, N, BLOCK_N: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    at_target = tl.load(x_ptr + row * N + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(lse_ptr + row, lse)
    tl.store(loss_ptr + row, lse - at_target)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        loss, lse = x.new_empty(len(x), dtype=torch.float32), x.new_empty(len(x), dtype=torch.float32)
        if len(x):
            BLOCK_N = triton.next_power_of_2(x.shape[1])
            launch(cross_entropy_kernel, (len(x),), x, target, loss, lse, x.shape[1], BLOCK_N=BLOCK_N)
        ctx.save_for_backward(x, target, lse)
        return loss, lse

    @staticmethod
    def backward(ctx, dloss, dlse):
        x, target, lse = ctx.saved_tensors
        dx = torch.exp(x.float() - lse[:, None]) * (dloss + dlse)[:, None]
        return dx.scatter_add_(1, target[:, None], -dloss[:, None]).to(x.dtype), None


def cross_entropy(x, target):
    wide = x if x.dtype == torch.float64 else x.float()
    lse = wide.logsumexp(-1)
    return lse - wide.gather(1, target[:, None])[:, 0], lse


def make_logits(case, device):
    x = 3 * normal(case, case.shape, device=device)
    return {"x": x, "target": torch.arange(len(x), device=device) % case.shape[1]}


CROSS_ENTROPY = toy(
    "cross_entropy",
    cross_entropy,
    lambda x, target: (F.cross_entropy(x.float(), target, reduction="none"), x.float().logsumexp(-1)),
    make_logits,
    cross_entropy,
    CrossEntropy.apply,
    wrong=lambda x, target: (cross_entropy(x, target)[0], cross_entropy(x - x.amax(-1, keepdim=True), target)[1]),
    level=4,
    gradients=("x",),
    outputs=(Output("loss", "float32"), Output("lse", "float32")),
    cases=cases((1, 1), (3, 37), (0, 5), (16, 256)),
)
