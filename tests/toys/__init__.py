"""Small operations of every form that the record holds, each with a kernel of level 4 or 5 and a wrong variant."""

from toys.argmax import ARGMAX
from toys.cross_entropy import CROSS_ENTROPY
from toys.dropout import DROPOUT
from toys.grouped_scores import GROUPED
from toys.quantize import FAKE_QUANTIZE, QUANTIZE
from toys.rope import ROPE

TOYS = {op.name: op for op in (CROSS_ENTROPY, ROPE, ARGMAX, GROUPED, QUANTIZE, FAKE_QUANTIZE, DROPOUT)}
