"""Measurements of the style of code and docs, with limits. ``make lint`` prints and enforces them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGES = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
#: Nominal relative clauses, such as "what is sent" for "the request".
CLAUSE = re.compile(r"\bwhat (?:an?|the|is|was|are|were|has|had|it|they|this|that|one|there|each|its)\b", re.IGNORECASE)
CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
LONGEST_MODULE = 500

Node = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules, by name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def docstrings(trees: dict[str, ast.Module]) -> Iterator[tuple[str, Node, str]]:
    """Yield each docstring with its module and its node."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, Node) and (text := ast.get_docstring(node)):
                yield name, node, text


def per_thousand(texts: list[str]) -> float:
    """Return the number of relative clauses per 1,000 words."""
    return sum(len(CLAUSE.findall(text)) for text in texts) / sum(len(text.split()) for text in texts) * 1000


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports, including imports for type checks."""
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        names = {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
        names |= {str(node.module) for node in froms if f"{node.module}" in trees}
        packages = {each.rpartition(".")[0] for each in names & trees.keys()}
        found[name] = (names & trees.keys()) - packages - {name}
    return found


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules that import themselves through other modules."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        edge = set(graph[start])
        while edge:
            seen |= edge
            edge = {each for one in edge for each in graph[one]} - seen
        return seen

    return [name for name in graph if name in reached(name)]


def main() -> int:
    """Print the measurements, and return 1 if one exceeds its limit."""
    trees = modules()
    texts = list(docstrings(trees))
    long = [name for name, tree in trees.items() if tree.body and (tree.body[-1].end_lineno or 0) > LONGEST_MODULE]
    questions = [
        name
        for name, node, text in texts
        if isinstance(node, ast.Module) and re.match(r"(?:What|How|Whether|Who|Which)\b", text)
    ]
    starts = [name for name, _, text in texts if re.match(r"(?:Give|Tell|Say)s?\b", text)]
    pages = [CODE_BLOCK.sub("", page.read_text(encoding="utf-8")) for page in PAGES]
    measured: list[tuple[str, float, float, list[str]]] = [
        ("relative clauses per 1,000 words of docstrings", per_thousand([text for *_, text in texts]), 0.5, []),
        ("relative clauses per 1,000 words of pages", per_thousand(pages), 0.5, []),
        ("module docstrings that start with a question word", len(questions), 0, questions),
        ('docstrings that start with "Give", "Tell" or "Say"', len(starts), 0, starts),
        (f"modules of more than {LONGEST_MODULE} lines", len(long), 0, long),
        ("modules in an import cycle", len(found := cycles(imports(trees))), 0, found),
    ]
    for name, value, limit, places in measured:
        print(f"{'ok ' if value <= limit else 'BAD'}  {value:g}  {name} (at most {limit:g})", *places)
    return int(any(value > limit for _, value, limit, _ in measured))


if __name__ == "__main__":
    sys.exit(main())
