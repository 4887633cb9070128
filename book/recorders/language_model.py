"""Trains the course's language model, and judges it beside n-grams. Recorded on a GPU, in a few minutes:

    python -m book.recorders.language_model FOLDER [--seconds 200]

writes FOLDER/<gpu>.json and the weights, kernels/models/language.pt: those of the validation that was best in that time.
`--quick` trains a toy for a moment on a CPU, and writes both into FOLDER.

The file holds `machine`, `training` and `rows`: {"measure", "of", "value"}. A quarter of a batch is text. The rest is random
characters that repeat themselves with some period, so that the model learns to copy, which a text of this size does not teach.
"""

import argparse
import copy
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F

from kernels.machine import here
from kernels.measure.results import commit, facts, file_name, write
from kernels.models import LanguageModel, corpus, judged, weights

SIZES = {"vocab_size": len(corpus.symbols()), "dim": 128, "num_heads": 4, "num_kv_heads": 2, "depth": 5}
TOY = {"vocab_size": len(corpus.symbols()), "dim": 32, "num_heads": 2, "num_kv_heads": 1, "depth": 2}
DROPOUT = 0.2
EVERY = 250  # steps between validations
PERIODS = (16, 64, 256, 1024)

Row = tuple[str, str, float]
"""What is measured, of what, and the value."""


def batches(window: int, rows: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens, (rows, window), and what follows each of them; -100 where that cannot be known."""
    text, _ = corpus.split()
    random = torch.Generator().manual_seed(0)
    places, texts = torch.arange(window + 1), rows // 4
    shortest, longest = 8.0, window / 2
    while True:
        starts = torch.randint(len(text) - window, (texts, 1), generator=random)
        # Periods are as often between 8 and 16 as between 512 and 1,024.
        drawn = torch.rand(rows - texts, 1, generator=random)
        period = (shortest * (longest / shortest) ** drawn).long()
        some = torch.randint(SIZES["vocab_size"], (rows - texts, window + 1), generator=random)
        repeating = some.gather(1, places % period)
        both = torch.cat([text[starts + places], repeating])
        targets = both[:, 1:].clone()
        targets[texts:][places[1:] <= period] = -100
        yield both[:, :-1], targets


def train(model: LanguageModel, device: str, seconds: float, window: int, rows: int) -> tuple[dict, dict, list[Row]]:
    """The weights, averaged over the last steps, at the lowest sum of both validation losses; and how the training went."""
    _, held = corpus.split()
    copies = judged.repeated(16, window // 4, SIZES["vocab_size"], seed=1)
    decayed = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95), fused=device == "cuda")
    # In place of a schedule of the learning rate, which would have to know when validation is at its lowest.
    average = copy.deepcopy(model).eval()
    narrow = torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext()
    best: dict[str, torch.Tensor] = {}
    lowest, best_step, step, history = float("inf"), 0, 0, []
    began = time.monotonic()
    for step, (tokens, targets) in enumerate(batches(window, rows), 1):
        optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 2e-3 * min(1, step / 100)
        model.train()
        with narrow:
            logits = model(tokens.to(device))
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.to(device).flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 / min(step, 300))
        late = time.monotonic() - began > seconds
        if step % EVERY == 0 or late:
            bits = judged.bits(average, held, window, device)
            copied, bits_copied = judged.induction(average, copies, device)
            history += [("bits a character", f"step {step}", bits), ("induction accuracy", f"step {step}", copied)]
            print(f"{time.monotonic() - began:6.1f} s, step {step}: {bits:.4f} bits, {copied:.4f} copied", flush=True)
            if bits + bits_copied < lowest:
                lowest, best_step = bits + bits_copied, step
                best = {name: value.clone() for name, value in average.state_dict().items()}
        if late:
            break
    spent = round(time.monotonic() - began, 1)
    about = {"seconds": spent, "steps": step, "best_step": best_step, "rows": rows, "window": window}
    return best, about | {"dropout": DROPOUT}, history


def judge(model: LanguageModel, device: str, window: int, orders: tuple[int, ...]) -> list[Row]:
    """What it has learnt, beside n-grams of these orders."""
    text, held = corpus.split()
    rows = [("bits a character", "language model", judged.bits(model, held, window, device))]
    for order in orders:
        rows.append(("bits a character", f"Witten-Bell, order {order}", judged.n_gram_bits(text, held, order)))
    for length in (one for one in PERIODS if 2 * one <= window):
        sequences = judged.repeated(16, length, SIZES["vocab_size"], seed=2)
        rows.append(("induction accuracy", f"{length} characters", judged.induction(model, sequences, device)[0]))
    return rows


def main(folder: Path, seconds: float, quick: bool) -> None:
    device, sizes = here().device, TOY if quick else SIZES
    window, batch = (64, 4) if quick else (2048, 16)
    torch.manual_seed(0)
    trained, about, history = train(LanguageModel(**sizes, dropout=DROPOUT).to(device), device, seconds, window, batch)
    model = LanguageModel(**sizes)
    model.load_state_dict(trained)
    path = folder / "language.pt" if quick else weights.PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    weights.save(model, sizes, path)
    # Judged as they are stored, in bfloat16.
    found = judge(weights.pretrained(path).to(device), device, window, (2,) if quick else (2, 4, 6))
    rows = [{"measure": measure, "of": of, "value": round(value, 4)} for measure, of, value in found + history]
    machine = facts() if device == "cuda" else {"gpu": "cpu", "commit": commit()}
    about["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    write(folder / file_name(machine["gpu"]), {"machine": machine, "training": about}, "rows", rows)
    print(*rows[: len(found)], sep="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    main(asked.folder, 3 if asked.quick else asked.seconds, asked.quick)
