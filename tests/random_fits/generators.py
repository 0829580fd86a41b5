"""The generators of tests/random_programs and tests/random_nets, side by side: both have modules of the same names, so each set is imported from its
own folder and then taken out of the table of modules, where it would be in the other's way."""
import importlib
import os
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIB = os.path.join(TESTS, "lib")


class Modules:
    """Modules of one folder, as attributes."""

    def __init__(self, folder, *names):
        path = os.path.join(TESTS, folder)
        before = set(sys.modules)
        sys.path[:0] = [path, LIB]
        try:
            for name in names:
                setattr(self, name, importlib.import_module(name))
        finally:
            for entry in (path, LIB):
                sys.path.remove(entry)
        for name in set(sys.modules) - before:
            where = getattr(sys.modules[name], "__file__", None) or ""
            if os.path.dirname(where) == path:
                del sys.modules[name]


programs = Modules("random_programs", "generate", "program", "run")
nets = Modules("random_nets", "keras", "onnx", "generate", "files", "run")
