"""On a CPU kernels must be imported before triton, which a test may name first. And the score of the labs' checks is printed:
from here, since what distributes tests reads no other conftest.py.
"""

import kernels  # noqa: F401

_COUNTED = {
    "test_a_mutant_is_rejected_for_its_cause": "mutants rejected",
    "test_another_solution_is_accepted": "other solutions accepted",
}


def pytest_terminal_summary(terminalreporter):
    for test, words in _COUNTED.items():
        ran = {
            outcome: sum(f"{test}[" in report.nodeid for report in terminalreporter.stats.get(outcome, []))
            for outcome in ("passed", "failed")
        }
        if sum(ran.values()):
            terminalreporter.write_line(f"labs: {ran['passed']} of {sum(ran.values())} {words}")
