"""Decoding: one query a sequence against all of its keys so far, which a cache holds (Pope et al. 2022).

    s_j = scale · q · k_j                                   for the first lengths_b keys of sequence b
    lse = log(sum_j exp(s_j))
    y   = sum_j exp(s_j - lse) v_j

for each of H heads; H/H' of them next to each other share a head of keys and values, and one read of it. A sequence of
length 0 has y = 0 and lse = -inf. The cache is one tensor, B×H'×S×D, or pages of page_size keys anywhere in memory, and
a table that says which page comes where ("PagedAttention", Kwon et al. 2023).

A key is read once and used for H/H' multiply-adds a feature: the time is that of reading the cache. B · H' blocks are
too few to do that on a GPU, so keys are divided into parts. Each leaves the largest score m_i, the sum l_i of
exp(s_j - m_i) and the values weighted by the same, a_i; a second kernel joins them ("Flash-Decoding", Dao et al. 2023):

    y = sum_i exp(m_i - m) a_i / sum_i exp(m_i - m) l_i,    m = max_i m_i

How many parts follows from shapes and the GPU's multiprocessors, and they are joined in order: the same bits every time on one
kind of GPU.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernels import levels
from kernels.operation import Operation, Peer
from kernels.ops.decode import cuda, native, triton, wrong
from kernels.ops.decode.cases import CASES, cost, few, full, make_inputs
from kernels.ops.decode.in_order import in_order
from kernels.ops.decode.native import gathered


@levels.documented
def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    table: torch.Tensor | None = None,
    scale: float | None = None,
    level: int | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, lse) of one query a sequence. For inference: levels 4 and 5 have no gradient.

    Args:
        q: shape (B, H, D), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides; D at most 256 at
            levels 4 and 5.
        k, v: shape (B, H', S, D), where H' divides H; with a table (pages, page_size, H', D). Dtype and device of q,
            any strides.
        lengths: int32, shape (B,), on the device of q: how many keys each sequence has, from 0 to S, or to
            max_pages · page_size. What lies behind them is not read.
        table: int32, shape (B, max_pages), on the device of q: key j of sequence b is row j % page_size of page
            table[b, j // page_size]. Behind the last page in use it may hold anything. None: there are no pages.
        scale: of the scores, positive; 1/√D unless said.

    Returns:
        y, shape, dtype and device of q; lse, the logarithm of each query's sum of exponentials, shape (B, H), float32
        (float64 for float64).

    Raises:
        TypeError, ValueError: naming the argument, before anything is launched. A length or a page out of range is one
            on a CPU. On a GPU, where a look at their values would wait for the GPU, it is an assertion of the kernel
            that names `lengths` or `table`, before anything is read there; levels 1 to 3 take a length that is too
            large for the largest, and a page out of range is an assertion of PyTorch's.
    """
    return OPERATION.defaults[levels.chosen(level, q)](q, k, v, lengths, table, scale)


def reference(q, k, v, lengths, table=None, scale=None):
    """The definition, in float64, a sequence at a time."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale

    def keys_of(cache, b, length):
        if table is None:
            return cache[b, :, :length].double()
        size = cache.shape[1]
        pages = [cache[page] for page in table[b, : -(-length // size)].tolist()]
        return torch.cat([cache[:0].flatten(0, 1), *pages])[:length].transpose(0, 1).double()

    y, lse = q.new_zeros(q.shape, dtype=torch.float64), q.new_zeros(q.shape[:2], dtype=torch.float64)
    for b, length in enumerate(lengths.tolist()):
        keys, values = keys_of(k, b, length), keys_of(v, b, length)
        rows = q[b].double().reshape(len(keys), -1, q.shape[-1])
        s = torch.einsum("hgd,hjd->hgj", rows, keys) * scale
        y[b] = torch.einsum("hgj,hjd->hgd", s.softmax(-1), values).view_as(y[b])
        lse[b] = s.logsumexp(-1).view_as(lse[b])
    return y, lse


def torch_decode(q, k, v, lengths, table=None, scale=None):
    """PyTorch's own, with a mask; the query heads of a group are queries to it. Sequences without keys, of which it makes
    NaN in some versions, see all keys there and are cleared."""
    if table is not None:
        k, v = gathered(k, lengths, table), gathered(v, lengths, table)
    (B, H, D), (heads, S) = q.shape, k.shape[1:3]
    seen = (torch.arange(S, device=q.device) < lengths[:, None])[:, None, None]
    k, v = (one.masked_fill(~seen.mT, 0) for one in (k, v))
    rows, alone = q.reshape(B, heads, H // heads, D), ~seen.any(-1, keepdim=True)
    if q.numel() and S:
        y = F.scaled_dot_product_attention(rows, k, v, seen | alone, scale=scale).masked_fill(alone, 0)
    else:
        y = torch.zeros_like(rows)
    s = rows.float() @ k.float().mT * (D**-0.5 if scale is None else scale)
    return y.view(q.shape), s.masked_fill(~seen, -torch.inf).logsumexp(-1).view(q.shape[:2])


def plain_decode(*args, **kwargs):
    """The same by plain operators: its fused kernels refuse some edge cases on a GPU."""
    with sdpa_kernel(SDPBackend.MATH):
        return torch_decode(*args, **kwargs)


def sdpa_flash(q, k, v, lengths, table=None, scale=None):
    """PyTorch's flash kernel, which divides keys, too; it knows neither lengths nor pages."""
    if table is not None:
        k, v = gathered(k, lengths, table), gathered(v, lengths, table)
    B, H, D = q.shape
    rows = q.reshape(B, k.shape[1], H // k.shape[1], D)
    y, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(rows, k, v, scale=scale)
    return y.reshape(q.shape), lse.reshape(q.shape[:2])


OPERATION = Operation(
    **levels.from_modules("decode", native, triton, cuda, lse="float32"),
    reference=reference,
    baseline=plain_decode,
    second_baseline={"float32": in_order},
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    peers=(*levels.torch_peers(torch_decode), Peer("sdpa-flash", lambda: sdpa_flash, full)),
    cost=cost,
    cases=CASES,
    few=few,
)
