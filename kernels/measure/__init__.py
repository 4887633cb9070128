"""How fast is it, measured so that it means something: times, ceilings, stored results, verdicts."""

from kernels.measure.benchmark import Benchmark, benchmark
from kernels.measure.ceilings import ceilings
from kernels.measure.compare import Comparison, Row, compare
from kernels.measure.levels import Levels, levels
from kernels.measure.profiling import Profile, profile_model
from kernels.measure.race import Race, race
from kernels.measure.results import Results, stored
from kernels.measure.verdict import Contradicted, verdict

__all__ = [
    "Benchmark",
    "Comparison",
    "Contradicted",
    "Levels",
    "Profile",
    "Race",
    "Results",
    "Row",
    "benchmark",
    "ceilings",
    "compare",
    "levels",
    "profile_model",
    "race",
    "stored",
    "verdict",
]
