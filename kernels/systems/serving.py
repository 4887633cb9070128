"""A served model: requests that must get an answer, and those that must not, and that the server outlives."""

import dataclasses
import functools
import http.client
import json
import math
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.lens.pytorch.operators import operators
from kernels.measure.race import race
from kernels.modules import TransformerBlock
from kernels.serving import Exported, export, serve
from kernels.serving import door as checking
from kernels.system import Shown, System

Serve = Callable[..., ThreadingHTTPServer]
LONGEST = 12
TENSOR = checking._tensor


class Tagger(nn.Module):
    """A label for each of up to twelve tokens, with a weight for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(9, 8), nn.Linear(8, 3)

    def forward(self, tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return self.out(self.embedding(tokens).cumsum(1)) * weights[..., None]


@functools.cache
def saved() -> tuple[Tagger, bytes]:
    torch.manual_seed(0)
    model = Tagger().eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tagger.pt2"
        example = torch.randint(0, 9, (2, 5)), torch.randn(2, 5)
        export(model, example, path, max_batch=4, max_length=LONGEST, values={"tokens": (0, 8)})
        return model, path.read_bytes()


@contextmanager
def running(make: Serve, **limits: Any) -> Iterator[int]:
    """The port of a server of the tagger."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tagger.pt2"
        path.write_bytes(saved()[1])
        server = make(path, port=0, **limits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(port: int, body: Any, kind: str = "application/json") -> tuple[int, dict]:
    """The status and content of an answer; a body that is no bytes is sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", "/", sent, {"Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


GOOD = {"tokens": [[1, 2, 8]], "weights": [[1, 0.5, -1]]}
# What is at fault → what the answer must name, and its status.
BAD: dict[str, tuple[Any, str, int]] = {
    "no JSON": (b"{", "body", 400),
    "a list": ([1], "body", 400),
    "NaN": (b'{"tokens": [[1]], "weights": [[NaN]]}', "body", 400),
    "beyond float32": ({"tokens": [[1]], "weights": [[1e39]]}, "weights", 400),
    "no weights": ({"tokens": [[1]]}, "weights", 400),
    "another name": (GOOD | {"mask": [[1]]}, "mask", 400),
    "another rank": (GOOD | {"tokens": [1, 2, 8]}, "tokens", 400),
    "an empty batch": (GOOD | {"tokens": []}, "tokens", 400),
    "ragged": (GOOD | {"tokens": [[1, 2, 3], [1]]}, "tokens", 400),
    "too long": ({"tokens": [[1] * 13], "weights": [[1] * 13]}, "tokens", 400),
    "too many rows": ({"tokens": [[1]] * 5, "weights": [[1]] * 5}, "tokens", 400),
    "a fraction": (GOOD | {"tokens": [[1, 2.5, 3]]}, "tokens", 400),
    "a boolean": (GOOD | {"weights": [[1, True, 3]]}, "weights", 400),
    "a string": (GOOD | {"weights": [[1, "2", 3]]}, "weights", 400),
    "no such token": (GOOD | {"tokens": [[1, 2, 9]]}, "tokens", 400),
    "a token below": (GOOD | {"tokens": [[1, 2, -1]]}, "tokens", 400),
    "other lengths": (GOOD | {"weights": [[1, 2]]}, "weights", 400),
    "other batches": (GOOD | {"weights": [[1, 2, 3], [1, 2, 3]]}, "weights", 400),
    "deep": (b'{"tokens": ' + b"[" * 90_000 + b"]" * 90_000 + b"}", "", 400),
    "too large": (b" " * 300_000, "body", 413),
}


def check(make: Serve, device: str) -> tuple[float, str | None]:
    """All that is at fault gets its status and a reason; then many ask at once, and each gets its own answer."""
    model = saved()[0]
    with running(make, max_bytes=200_000) as port:
        for what, (body, named, expected) in BAD.items():
            status, content = ask(port, body)
            if status != expected or not content.get("error", "").startswith(named):
                return math.inf, f"{what}: got {status} {str(content)[:100]}, expected {expected} naming {named}"
        asked = [[[token % 9] * (1 + token % 3)] for token in range(24)]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda t: ask(port, {"tokens": t, "weights": [[1] * len(t[0])]}), asked))
        for tokens, (status, content) in zip(asked, answers, strict=True):
            with torch.no_grad():
                expected_output = model(torch.tensor(tokens), torch.ones(1, len(tokens[0])))
            if status != 200 or not torch.allclose(torch.tensor(content["output"]), expected_output, atol=1e-5):
                return math.inf, f"{tokens}: got {status}, or not the model's own output"
    return 0.0, None


def _without(what: str, instead: Any) -> Serve:
    """A server, a part of whose door is replaced."""

    def read(body: bytes, inputs: tuple[checking.Input, ...]) -> tuple[torch.Tensor, ...]:
        with patch.object(checking, what, instead):
            return checking.read(body, inputs)

    def make(*args: Any, **limits: Any) -> ThreadingHTTPServer:
        server = serve(*args, **limits)
        handler = server.RequestHandlerClass
        ask_model = handler.do_POST  # type: ignore[attr-defined]

        def do_POST(self: Any) -> None:
            with patch("kernels.serving.server.read", read):
                ask_model(self)

        handler.do_POST = do_POST  # type: ignore[attr-defined]
        return server

    return make


def any_tensor(value: Any, of: checking.Input) -> torch.Tensor:
    return torch.tensor(value, dtype=checking.DTYPES[of.dtype])


def any_token(value: Any, of: checking.Input) -> torch.Tensor:
    return TENSOR(value, dataclasses.replace(of, values=None))


def any_size(*args: Any, **limits: Any) -> ThreadingHTTPServer:
    return serve(*args, **limits | {"max_bytes": 1 << 30})


def answers_shuffled(path: Path, **limits: Any) -> ThreadingHTTPServer:
    """Gives a batch's answers in reverse order."""
    from kernels.serving import load

    exported = load(path)
    turned = Exported(lambda *args: exported.model(*args).flip(0), exported.inputs)
    with patch("kernels.serving.server.load", lambda path: turned):
        return serve(path, wait_ms=20, **limits)


def batched(device: str) -> Mapping[str, Number]:
    """Sixteen requests one by one and as one batch: launches, exactly, and time."""
    found = {}
    for length, dim in ((32, 256), (512, 1_024)) if device == "cuda" else ((32, 256),):
        block = TransformerBlock(dim, 8, level="native").to(device).eval()
        rows = torch.randn(16, length, dim, device=device)

        def one_by_one(block: nn.Module = block, rows: torch.Tensor = rows) -> torch.Tensor:
            return torch.cat([block(row) for row in rows.split(1)])

        calls: dict[str, Callable[[], torch.Tensor]] = {
            "one by one": one_by_one,
            "as a batch": functools.partial(block, rows),
        }
        fewer = (len(operators(one_by_one).calls) - 1) / len(operators(block, rows).calls)
        found[f"launches, {length} × {dim}"] = Number.exact(fewer, "×")
        run = race({name: torch.no_grad()(call) for name, call in calls.items()}, device)
        found[f"time, {length} × {dim}"] = run.ratio("one by one", "as a batch")
    return found


def demo(device: str, quick: bool) -> Shown:
    with running(serve, max_bytes=200_000) as port:
        status, content = ask(port, GOOD)
        refused = {what: ask(port, body) for what, (body, _, _) in BAD.items()}
    ratio = batched("cpu")["launches, 32 × 256"].median
    return Shown(
        f"a model in a file, served: {status} with {len(content['output'][0])} labels; too long gets "
        f"{refused['too long'][0]} and “{refused['too long'][1]['error']}”",
        f"{len(refused)} requests that are at fault are refused, and requests that come together get their own answers",
        f"a batch of sixteen requests makes {ratio:.0f} times fewer launches than one by one",
    )


SYSTEM = System(
    name="serving",
    summary="a model exported to a file and served behind a door that checks",
    modules=("kernels.serving.door", "kernels.serving.export", "kernels.serving.batches", "kernels.serving.server"),
    make=serve,
    proof="the model itself, for requests that come one by one and together; and requests that are at fault",
    check=check,
    wrong={
        "the door takes any tensor": _without("_tensor", any_tensor),
        "any integer is a token": _without("_tensor", any_token),
        "bodies of any size": any_size,
        "answers go to others": answers_shuffled,
    },
    demo=demo,
    from_torch=("torch.export",),
    claims=(
        Claim(
            name="serving-2x-batched",
            text="model serving 2×",
            source="five-level project",
            conditions="none given; here, requests in batches against one by one",
            verdict="partly",
            reason="a batch makes as many times fewer launches as it has requests; that is far more than claimed for small "
            "requests, and a little less for large ones",
            evidence="measured",
            experiment=batched,
        ),
    ),
)
