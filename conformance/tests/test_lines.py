"""The node is to be read in an evening: this keeps it from growing."""

import ast
import pathlib
import unittest

LIMIT, COLUMNS = 1200, 120
NODE = pathlib.Path(__file__).resolve().parents[1] / "exonode"
APART = ("__main__.py", "subject.py")                       # the command and the subject are no part of the protocol


def docstrings(tree):
    """The numbers of the lines in docstrings."""
    said = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            said.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return said


def lines_of_code(text):
    """The lines of a file but for blank ones, docstrings and comments."""
    said = docstrings(ast.parse(text))
    code = [line.strip() for n, line in enumerate(text.splitlines(), 1) if n not in said]
    return sum(line != "" and not line.startswith("#") for line in code)


class Lines(unittest.TestCase):
    def files(self):
        files = {path.name: path.read_text() for path in sorted(NODE.glob("*.py"))}
        self.assertIn("peer.py", files)
        return files

    def test_the_node_stays_short(self):
        counts = {name: lines_of_code(text) for name, text in self.files().items() if name not in APART}
        self.assertLess(sum(counts.values()), LIMIT, counts)

    def test_its_lines_are_not_crammed(self):
        for name, text in self.files().items():
            longest = max(text.splitlines(), key=len, default="")
            self.assertLessEqual(len(longest), COLUMNS, f"{name}: {longest}")
            begins = [node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
            self.assertEqual(len(begins), len(set(begins)), f"{name} has two statements in a line")


if __name__ == "__main__":
    unittest.main()
