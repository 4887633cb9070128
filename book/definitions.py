"""Where a chapter defines a term: the sentence in which it is bold, for the glossary and for the tests."""

import re

from book.anatomy import Chapter, prose

REFERS_BACK = re.compile(r"(This|That|These|Those|Such|So|It|The result)\b")
BOLD = re.compile(r"\*\*([^*]{1,60}?)\*\*")
LINK = re.compile(r"(?<!\w)\[([^\]]*)\]")  # as `prose` leaves it


def definition(chapter: Chapter, term: str) -> str:
    """The sentence in which the term is bold, best in just these words; empty where there is none.

    A chapter that teaches "index guard" may say of a condition that it is called a **guard**. The goals at the head and
    tables define nothing. A sentence such as "This is **divergence**" brings the one before it.
    """
    wanted, found = words(term), []
    for sentences in map(sentences_of, paragraphs(chapter)):
        for place, sentence in enumerate(sentences):
            first = place - bool(place and REFERS_BACK.match(sentence))
            for bold in map(words, BOLD.findall(sentence)):
                if bold and (bold <= wanted or wanted <= bold):
                    apart = (
                        len(bold ^ wanted),
                        not bold & words(term.split()[0]),
                    )
                    found.append((apart, sentences[first : place + 1]))
    _, best = min(found, key=lambda one: one[0], default=((), ()))
    said = re.sub(r":$", ".", " ".join(best))
    return LINK.sub(r"\1", said)


def words(term: str) -> set[str]:
    """In whatever number."""
    return {
        word.removesuffix("s")
        for word in re.findall(r"[\w'’+-]+", term.lower())
    }


def paragraphs(chapter: Chapter) -> list[str]:
    """And the items of lists, each on one line."""
    goals = r"^After (this|these) \w+ you can.*?\n\n(?!\s*- )"
    text = re.sub(
        goals,
        "",
        prose("\n\n".join(chapter.markdown)),
        flags=re.DOTALL | re.MULTILINE,
    )
    return [
        " ".join(part.split())
        for part in re.split(r"\n\s*\n|\n\s*(?:- |\d+\. )", text)
        if not part.lstrip().startswith(("#", "|"))
    ]


def sentences_of(paragraph: str) -> list[str]:
    said = re.sub(r"^\*Figure \d+\.\* ", "", paragraph)
    return re.split(r"(?:(?<=[.?])|(?<=[.?]\))) +(?=[A-Z`*$(])", said)
