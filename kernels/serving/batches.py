"""Requests that come at about the same time, given to the model as one batch."""

import queue
import threading
import time
from concurrent.futures import Future

import torch

from kernels.serving.door import Refused
from kernels.serving.export import Exported

WAITING = 64  # requests, at most; more are refused


class Batches:
    """Runs a model in a thread of its own, on the rows of all requests that wait and fit together.

    Args:
        exported: the model.
        wait_ms: how long a request waits for others.
    """

    def __init__(self, exported: Exported, wait_ms: float = 2.0) -> None:
        self.exported, self.wait = exported, wait_ms / 1e3
        self.waiting: queue.Queue[tuple[tuple[torch.Tensor, ...], Future]] = queue.Queue(WAITING)
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, tensors: tuple[torch.Tensor, ...], seconds: float) -> torch.Tensor:
        """The model's output. Refused, with status 503: too many wait already, or it takes too long."""
        answer: Future[torch.Tensor] = Future()
        try:
            self.waiting.put_nowait((tensors, answer))
        except queue.Full:
            raise Refused(f"{WAITING} requests wait already; ask again later", 503) from None
        try:
            return answer.result(seconds)
        except TimeoutError:
            answer.cancel()
            raise Refused(f"there is no answer within {seconds:g} seconds; ask for less, or later", 503) from None

    def _run(self) -> None:
        held: list[tuple[tuple[torch.Tensor, ...], Future]] = []
        while True:
            together, held = self._gather(held or [self.waiting.get()])
            together = [one for one in together if one[1].set_running_or_notify_cancel()]
            if not together:
                continue
            sizes = [len(tensors[0]) for tensors, _ in together]
            try:
                with torch.no_grad():
                    rows = [torch.cat(parts) for parts in zip(*(t for t, _ in together), strict=True)]
                    outputs = self.exported.model(*rows).split(sizes)
                for (_, answer), output in zip(together, outputs, strict=True):
                    answer.set_result(output)
            except Exception as error:  # whatever the model raises is of these requests alone
                for _, answer in together:
                    if not answer.done():
                        answer.set_exception(error)

    def _gather(self, first: list) -> tuple[list, list]:
        """What runs together with the first that waits, and those that came meanwhile and do not fit."""
        until, together, others = time.monotonic() + self.wait, first[:1], first[1:]
        shapes = [one.shape[1:] for one in together[0][0]]
        rows = len(together[0][0][0])
        candidates, others = others, []
        while rows < self.exported.max_batch:
            if candidates:
                one = candidates.pop(0)
            else:
                try:
                    one = self.waiting.get(timeout=max(until - time.monotonic(), 0))
                except queue.Empty:
                    break
            if [t.shape[1:] for t in one[0]] == shapes and rows + len(one[0][0]) <= self.exported.max_batch:
                together.append(one)
                rows += len(one[0][0])
            else:
                others.append(one)
                if len(others) >= WAITING:
                    break
        return together, others + candidates
