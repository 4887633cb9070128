"""Of all sentences in which a chapter has a term in bold, the glossary takes the one that defines it."""

from types import SimpleNamespace

import pytest

from book.definitions import definition

pytestmark = pytest.mark.always

CHAPTER = SimpleNamespace(
    markdown=[
        """# Warps

After this chapter you can

- say what **divergence** costs;
- name a **bank conflict**.

A warp runs in step. If its lanes part at an `if`, it takes both paths. This is **divergence**.

| Sum | How |
|---|---|
| of a row | a **row reduction** |

1. Calls that are not counted come first: the **warm-up**.
2. Lanes that want *different* words of a bank wait: a **bank
   conflict**. (In $x_{i}$ steps.) The rest is quick.

*Figure 2.* The **roofline** of a GPU: a slope and a flat top.

One condition is called a **guard**, and a whole list follows it:

<details><summary>Why?</summary>

This is a **fold**.

</details>
"""
    ]
)


@pytest.mark.parametrize(
    ("term", "said"),
    {
        "divergence": "If its lanes part at an `if`, it takes both paths. This is **divergence**.",
        "row reduction": "",
        "warm-up": "Calls that are not counted come first: the **warm-up**.",
        "bank conflict": "Lanes that want *different* words of a bank wait: a **bank conflict**.",
        "roofline": "The **roofline** of a GPU: a slope and a flat top.",
        "index guard": "One condition is called a **guard**, and a whole list follows it.",
        "guards": "One condition is called a **guard**, and a whole list follows it.",
        "fold": "",
    }.items(),
)
def test_the_sentence_that_defines_a_term(term, said):
    assert definition(CHAPTER, term) == said
