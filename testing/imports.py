"""Which modules of the packages import which, and the shape of that.

python -m testing.imports           this checkout
python -m testing.imports FOLDER    another one, such as `git worktree add FOLDER bd77ce1`
"""

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGES = ("solvers", "storage", "pipeline", "flows")  # nobody imports what comes later
HOME = "fewpass"  # the packages lie in it; in checkouts of before 2026-11-25 at the root
LONG_LINES = 300


def modules(project):
    """Every module of the packages by its name, and its file."""
    home = project / HOME if (project / HOME / PACKAGES[0]).is_dir() else project
    for path in (path for package in PACKAGES for path in (home / package).rglob("*.py")):
        parts = path.relative_to(project).with_suffix("").parts
        yield ".".join(parts[: -1 if parts[-1] == "__init__" else None]), path


def imports_of(node, known):
    """The modules that code imports when it runs, inside functions, too; a checker's are left out."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (a.name for a in node.names if a.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for name in node.names:
            whole = f"{node.module}.{name.name}"
            yield from (n for n in [whole if whole in known else node.module] if n in known)
    for child in ast.iter_child_nodes(node):
        yield from imports_of(child, known)


def graph(project):
    """What every module imports."""
    known = dict(modules(project))
    return {
        name: set(imports_of(ast.parse(path.read_text(encoding="utf-8")), known)) - {name}
        for name, path in known.items()
    }


def room_of(name, path):
    """The folder of a module, or the module itself where it stands beside the rooms of a package."""
    folder = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return folder if folder.removeprefix(f"{HOME}.") not in (HOME, *PACKAGES) else name


def graph_of_rooms(project, needs):
    """What every room imports."""
    room = {name: room_of(name, path) for name, path in modules(project)}
    rooms = {one: set() for one in room.values()}
    for name, its in needs.items():
        rooms[room[name]] |= {room[other] for other in its} - {room[name]}
    return rooms


def in_circles(needs):
    """What is left when whatever needs nothing else is taken away, again and again."""
    while free := {name for name, its in needs.items() if not its & needs.keys()}:
        needs = {name: its for name, its in needs.items() if name not in free}
    return needs


def going_round(needs):
    """What is in a circle itself: also without whatever nobody needs."""
    needs, others = in_circles(needs), None
    while others != needs:
        others, wanted = needs, set().union(*needs.values())
        needs = {name: its for name, its in needs.items() if name in wanted}
    return set(needs)


def floors(needs, package):
    """Modules in the longest chain of imports inside a package."""
    inside = {n: {o for o in its if _in(o, package)} for n, its in needs.items() if _in(n, package)}
    round_trips = going_round(inside)
    for name in round_trips:
        inside[name] = inside[name] - round_trips
    height = {}
    for name in TopologicalSorter(inside).static_order():
        height[name] = 1 + max((height[other] for other in inside[name]), default=0)
    return max(height.values())


def arrows_up(needs):
    """Imports from a package of one that stands above it, or beside it: solvers and storage."""
    level = dict(zip(PACKAGES, (0, 0, 1, 2), strict=True))
    pairs = ((_package(a), _package(b)) for a, its in needs.items() for b in its)
    return sum(a != b and level[a] <= level[b] for a, b in pairs)


def _package(name):
    return name.removeprefix(f"{HOME}.").partition(".")[0]


def _in(name, package):
    return _package(name) == package


def report(project):
    """The shape of a checkout, a line each."""
    needs = graph(project)
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules(project)}
    for package in PACKAGES:
        lines = sum(length for name, length in lengths.items() if _in(name, package))
        yield f"{package}: {lines:,} lines, {floors(needs, package)} floors"
    yield f"modules {len(needs)}, imports {sum(map(len, needs.values())):,}"
    yield f"arrows up {arrows_up(needs)}"
    for what, graph_of_them in (("modules", needs), ("rooms", graph_of_rooms(project, needs))):
        found = sorted(going_round(graph_of_them))
        yield " ".join([f"{what} in circles {len(found)}", *found])
    yield f"modules of more than {LONG_LINES} lines: {sum(n > LONG_LINES for n in lengths.values())}"
    longest = max(lengths, key=lengths.__getitem__)
    yield f"longest: {longest}, {lengths[longest]}"


if __name__ == "__main__":
    print("\n".join(report(Path(sys.argv[1] if sys.argv[1:] else "."))))
