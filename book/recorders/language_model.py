"""Trains the course's language model, and judges it beside n-grams. Recorded on a GPU, in a few minutes:

    python -m book.recorders.language_model FOLDER [--seconds 200]

writes FOLDER/<gpu>.json and the weights, kernels/models/language.pt: those of the validation that was best in that time.
`--quick` trains a toy for a moment on a CPU, and writes both into FOLDER.

The file holds `machine`, `training` and `rows`: {"measure", "of", "value"}. A quarter of a batch is text. The rest is random
characters that repeat themselves, so that the model learns to copy, which a text of this size does not teach. They repeat
within ever longer units: when it copies nine of ten characters of the longest ones, they become twice as long.
"""

import argparse
import copy
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F

from kernels.machine import here
from kernels.measure.results import commit, facts, file_name, write
from kernels.models import LanguageModel, corpus, judged, weights

SIZES = {"vocab_size": len(corpus.symbols()), "dim": 128, "num_heads": 4, "num_kv_heads": 2, "depth": 5}
TOY = {"vocab_size": len(corpus.symbols()), "dim": 32, "num_heads": 2, "num_kv_heads": 1, "depth": 2}
DROPOUT = 0.1
EVERY = 250  # steps between validations
PERIODS = (16, 64, 256, 1024)

Row = tuple[str, str, float]
"""What is measured, of what, and the value."""


def batch(window: int, rows: int, longest: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, (rows, window), and what follows each of them; -100 where that cannot be known. The copies stand in units of
    32 · 2ⁿ characters, `longest` at most: in each is another sequence, of an eighth of the unit to a half, that repeats."""
    text, _ = corpus.split()
    places, texts = torch.arange(window + 1), rows // 4
    starts = torch.randint(len(text) - window, (texts, 1), generator=random)
    units = 32 * 2 ** torch.randint((longest // 32).bit_length(), (rows - texts, 1), generator=random)
    inside = places % units
    drawn = torch.rand(rows - texts, window + 1, generator=random).gather(1, places - inside)  # one for each unit
    period = (units * 4 ** (-0.5 - drawn)).long()
    some = torch.randint(SIZES["vocab_size"], (rows - texts, window + 1), generator=random)
    both = torch.cat([text[starts + places], some.gather(1, places - inside + inside % period)])
    targets = both[:, 1:].clone()
    targets[texts:][(inside <= period)[:, 1:]] = -100
    return both[:, :-1], targets


def train(model: LanguageModel, device: str, seconds: float, window: int, rows: int) -> tuple[dict, dict, list[Row]]:
    """The weights, averaged over the last steps, at the lowest sum of both validation losses since the units grew; and how the
    training went."""
    _, held = corpus.split()
    decayed = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95), fused=device == "cuda")
    # In place of a schedule of the learning rate, which would have to know when validation is at its lowest.
    average = copy.deepcopy(model).eval()
    narrow = torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext()
    best: dict[str, torch.Tensor] = {}
    lowest, best_step, step, history = float("inf"), 0, 0, []
    random, longest = torch.Generator().manual_seed(0), 32
    began = time.monotonic()
    while True:
        step += 1
        tokens, targets = batch(window, rows, longest, random)
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
            copies = judged.repeated(64, longest // 2, SIZES["vocab_size"], seed=step)
            copied, bits_copied = judged.induction(average, copies, device)
            history += [("bits a character", f"step {step}", bits), ("induction accuracy", f"step {step}", copied)]
            copying = f"{copied:.4f} of {longest // 2} copied"
            print(f"{time.monotonic() - began:6.1f} s, step {step}: {bits:.4f} bits, {copying}", flush=True)
            if bits + bits_copied < lowest:
                lowest, best_step = bits + bits_copied, step
                best = {name: value.clone() for name, value in average.state_dict().items()}
            if copied > 0.9 and longest < window:
                longest, lowest = 2 * longest, float("inf")
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
