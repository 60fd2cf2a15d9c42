"""Names and docstrings: every method described once, no name defined twice, no private word added."""

import ast
from collections import Counter

from testing.imports import PACKAGES
from tests.conftest import PROJECT

FILES = {
    path.relative_to(PROJECT): ast.parse(path.read_text(encoding="utf-8"))
    for package in PACKAGES
    for path in sorted((PROJECT / package).rglob("*.py"))
}
CLASSES = [
    (path, node)
    for path, tree in FILES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

#: To be renamed; nothing may be added.
FILES_TWICE = {
    "errors", "evaluate", "forecast", "lazy", "matching", "methods", "model", "moments", "parameters",
    "predict", "progress", "reading", "rows", "schema", "server", "telling",
}  # fmt: skip
CLASSES_TWICE = {
    "Block", "Cells", "Certificate", "Columns", "Counts", "Found", "Known", "Line", "Mark", "Models",
    "Output", "Page", "PassSums", "Point", "Position", "Prepared", "Rows", "Rules", "Share", "Space",
    "Text", "_Header", "_Reader",
}  # fmt: skip


# -- docstrings ------------------------------------------------------------------------------------


def bases(node):
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def methods(node):
    return [each for each in node.body if isinstance(each, FUNCTIONS)]


def described_elsewhere(node, known):
    """Names of methods that a base class describes; None where a base is another library's."""
    if bases(node) - known.keys() - {"NamedTuple", "Protocol", "Generic", "BaseModel", "Exception"}:
        return None
    found = set()
    for base in bases(node) & known.keys():
        own = {each.name for each in methods(known[base]) if ast.get_docstring(each)}
        above = described_elsewhere(known[base], {**known, base: ast.parse("class A: 0").body[0]})
        if above is None:
            return None
        found |= own | above
    return found


def undescribed(classes):
    """Public methods without a docstring that neither a base class nor a protocol describes."""
    known = {node.name: node for _, node in classes}
    protocols = {
        each.name
        for _, node in classes
        if "Protocol" in bases(node)
        for each in methods(node)
        if ast.get_docstring(each)
    }
    for path, node in classes:
        elsewhere = described_elsewhere(node, known)
        for each in methods(node):
            described = elsewhere is None or each.name in elsewhere | protocols
            if not (each.name.startswith("_") or ast.get_docstring(each) or described):
                yield f"{path}:{each.lineno} {node.name}.{each.name}"


def test_every_public_method_is_described_by_its_class_a_base_or_a_protocol():
    """D102 of ruff, but for methods that implement one: no "Write them." below "Write rows."."""
    public = [(path, node) for path, node in CLASSES if not node.name.startswith("_")]
    assert len(public) > 300
    assert not list(undescribed(public))


def test_a_method_without_a_description_would_be_seen():
    text = '''
class Runs(Protocol):
    def run(self):
        """Run."""
class Base:
    def stop(self):
        """Stop."""
class Both(Base):
    def run(self): ...
    def stop(self): ...
    def more(self): ...
'''
    made = [("a.py", node) for node in ast.parse(text).body]
    assert list(undescribed(made)) == ["a.py:11 Both.more"]


# -- names -----------------------------------------------------------------------------------------


def twice(names):
    return {name for name, count in Counter(names).items() if count > 1}


def test_no_file_and_no_class_has_a_name_that_stands_twice():
    files = twice(path.stem for path in FILES if path.stem != "__init__")
    classes = twice(node.name for _, node in CLASSES)
    assert files <= FILES_TWICE
    assert classes <= CLASSES_TWICE
