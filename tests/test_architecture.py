"""Imports go one way, and each foreign library stays in its place: read from the sources, nothing is imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "kvzip"
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
LAYERS = [
    {"__init__", "__main__"},
    {"cli", "fleet"},  # a fleet does what a command does, elsewhere
    {"bench", "integrations", "pictures", "tuning"},
    {"api_parts", "api_salvage", "api_archive", "api_buffers"},
    {"archive"},
    {"api"},
    {"pipeline"},
    {"container", "blocks"},
    {"predict", "linear"},
    {"streams", "planes", "layouts", "dumps", "windows", "files"},
    {"coder", "wire", "dtypes", "errors", "version"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
LOOPS = {"build", "run"}  # a coding loop, row after row, and what makes it for a direction
KERNELS = {"coder", "windows", "planes", "predict", "linear"}


def imports(path):
    """Every module imported anywhere in a file, also inside functions, not for types alone."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            skipped.update(id(inner) for inner in ast.walk(node))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)


def unit(module):
    """The package or module directly below kvzip."""
    return module.split(".")[1] if "." in module else "__init__"


USES = {module: sorted(set(imports(path))) for module, path in MODULES.items()}
INSIDE = [(module, used) for module, names in USES.items() for used in names if used.split(".")[0] == "kvzip"]


def test_every_module_has_a_layer():
    assert {unit(module) for module in MODULES} <= set(RANK)


@pytest.mark.parametrize(("module", "used"), INSIDE)
def test_imports_go_down(module, used):
    if used == "kvzip" or unit(module) == unit(used):
        return
    assert RANK[unit(used)] >= RANK[unit(module)], f"{module} imports {used}, which is above it"


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("streams", {"windows", "files"}),
        ("planes", {"streams", "layouts", "dumps", "files"}),
        ("layouts", {"windows", "planes", "streams", "files"}),
        ("dumps", {"windows", "planes", "streams", "layouts", "files"}),
        ("windows", {"planes", "streams", "layouts", "dumps", "files"}),
        ("files", {"windows", "planes", "streams", "layouts", "dumps"}),
        ("predict", {"linear", "streams", "planes", "layouts", "dumps", "files"}),
        ("linear", {"predict", "windows", "streams", "planes", "layouts", "dumps", "files", "wire"}),
        ("coder", {"wire", "dtypes", "version"}),
        ("blocks", {"container", "dumps", "layouts", "files"}),
        ("container", {"blocks", "files"}),
    ],
)
def test_neighbours_that_must_not_know_each_other(module, never):
    found = {(who, used) for who, used in INSIDE if unit(who) == module and unit(used) in never}
    assert not found


def test_there_is_no_circle():
    """Between modules, imports inside functions included."""
    graph = {module: {used for who, used in INSIDE if who == module and used != "kvzip"} for module in MODULES}
    done, path = set(), []

    def visit(module):
        assert module not in path, f"a circle: {path[path.index(module) :]}"
        if module not in done:
            path.append(module)
            for used in sorted(graph.get(module, ())):
                visit(used)
            path.pop()
            done.add(module)

    for module in sorted(graph):
        visit(module)


def users(library):
    return {module for module, names in USES.items() if any(name.split(".")[0] == library for name in names)}


def test_numba_stays_in_kernel_modules():
    assert {unit(module) for module in users("numba")} <= KERNELS


def test_rich_is_in_one_module_of_the_command_line():
    found = users("rich")
    assert len(found) <= 1
    assert {unit(module) for module in found} <= {"cli"}


def test_matplotlib_is_in_one_module():
    assert users("matplotlib") == {"kvzip.pictures.mpl"}


def test_typer_is_in_the_command_line_alone():
    assert {unit(module) for module in users("typer") | users("click")} <= {"cli"}


def test_the_safetensors_library_is_not_needed():
    assert not users("safetensors")
    assert users("torch") <= {"kvzip.integrations.transformers"}


def test_nothing_below_the_command_line_prints():
    for module, path in MODULES.items():
        if unit(module) in ("cli", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            assert not (isinstance(called, ast.Name) and called.id in ("print", "input")), f"{module}: {node.lineno}"
            shown = isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr")
            assert not shown or unit(module) == "files", f"{module}: {node.lineno}"


def test_modules_and_functions_stay_small():
    for module, path in MODULES.items():
        text = path.read_text("utf-8")
        assert text.count("\n") <= 400, module  # about 300; the loop needs more
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                most = 60 if unit(module) not in KERNELS else 190 if node.name in LOOPS else 130
                assert node.end_lineno - node.lineno <= most, f"{module}.{node.name}"


def test_every_module_says_what_it_owns():
    for module, path in MODULES.items():
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))) or not path.read_text("utf-8"), module


@pytest.mark.skipif("kvzip.cli" not in MODULES, reason="no command line yet")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["compress", "--help"]])
def test_help_imports_neither_numba_nor_numpy(arguments):
    code = (
        "import sys\nfrom kvzip.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "sys.stderr.write(repr((code, sorted({'numba', 'numpy'} & set(sys.modules)))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, cwd=PACKAGE.parent
    )
    assert done.stderr.endswith("(0, [])"), done.stderr
    assert done.stdout
