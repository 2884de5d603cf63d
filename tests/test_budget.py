"""Each package has a budget of tokens: names, numbers, strings and operators, without docstrings and comments.

A budget is raised only by a commit that says why, and lowered where a package has become smaller.
`python tests/test_budget.py` prints what each package has.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}
BUDGETS = {
    "harness": 13950,
    "harness/checkpoints": 15300,
    "harness/commands": 900,
    "harness/comparison": 23950,
    "harness/config": 28250,
    "harness/corpus": 7350,
    "harness/data": 17550,
    "harness/hardware": 4750,
    "harness/measure": 12600,
    "harness/processes": 3200,
    "harness/study": 30900,
    "harness/tasks": 24300,
    "harness/terminal": 2350,
    "harness/tracking": 4100,
    "harness/training": 19700,
    "models": 23650,
    "models/attention": 6050,
    "models/huggingface": 7400,
    "models/objectives": 12450,
    "plugins": 168100,
    "reports": 7350,
    "reports/chapters": 6800,
    "reports/html": 1500,
    "reports/reading": 5850,
    "reports/writing": 16250,
}


def tokens(text: str) -> int:
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    read = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in LAYOUT and token.start[0] not in documented for token in read)


def measured() -> dict[str, int]:
    """Tokens by package; the modules that lie loose in a folder, and all of plugins/, count as one."""
    count: Counter[str] = Counter()
    for folder in ("harness", "models", "reports", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).parts
            if not (ROOT / folder / parts[1]).is_symlink() and "tests" not in parts:
                count["/".join(parts[: 1 if len(parts) == 2 or folder == "plugins" else 2])] += tokens(path.read_text("utf-8"))
    return dict(sorted(count.items()))


def test_each_package_keeps_to_its_budget():
    assert {package: count for package, count in measured().items() if count > BUDGETS.get(package, 0)} == {}


def test_docstrings_comments_and_layout_cost_nothing():
    assert tokens('def f(a):\n    """Says what."""\n\n    return a + 1  # one more\n') == len(
        ["def", "f", "(", "a", ")", ":", "return", "a", "+", "1"]
    )


if __name__ == "__main__":
    for package, count in measured().items():
        print(f'    "{package}": {count},')
