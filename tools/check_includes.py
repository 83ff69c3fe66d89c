#!/usr/bin/env python3
"""Holds the sources against the architecture's table of dependencies.

Checks every C++ source under src/ and include/:
  - a folder includes only folders that stand before it in the table;
  - headers with intrinsics are included in src/kernels/cpu/isa alone;
  - a header says `#pragma once`, but for the *.inl.h that a file includes inside its own namespace;
and every source of the repository:
  - no file is longer than 600 lines without a reason in LONG_FILES.

  tools/check_includes.py [ROOT]      prints each fault as file:line: what is wrong; exit code 1 when there is one
  tools/check_includes.py --self-test
"""

import os
import re
import sys
import tempfile
import unittest

# base -> {platform, tensor, text} -> {memory, format, kernels} -> moe -> model -> engine -> {api, server, cli}
FIRST = ["base"]
SECOND = ["platform", "tensor", "text"]
THIRD = ["memory", "format", "kernels"]
BELOW_ENGINE = FIRST + SECOND + THIRD + ["moe", "model"]
MAY_INCLUDE = {
    "base": [],
    "platform": FIRST,
    "tensor": FIRST,
    "text": FIRST,
    "memory": FIRST + SECOND,
    "format": FIRST + SECOND,
    "kernels": FIRST + SECOND,
    "moe": FIRST + SECOND + THIRD,
    "model": FIRST + SECOND + THIRD + ["moe"],
    "engine": BELOW_ENGINE,
    "api": BELOW_ENGINE + ["engine", "colibri"],
    "server": ["base", "text", "engine"],
    "cli": ["base", "text", "engine"],
    "colibri": [],  # include/colibri: the public headers stand alone
}

# (file, header it may include beyond the table): reason
EXCEPTIONS = {
    ("src/cli/inspect.cc", "kernels/select.h"): "inspect lists the instruction sets of this build",
}

# file: reason why it is longer than MAX_LINES
LONG_FILES = {}
MAX_LINES = 600

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
INTRINSICS = re.compile(r"^(\w*mmintrin|immintrin|x86intrin|x86gprintrin|\w*avx\w*intrin|amx\w*intrin|arm_\w+|riscv_vector)\.h$")
INTRINSICS_FOLDER = "src/kernels/cpu/isa/"
CODE = (".h", ".hpp", ".cc", ".cpp", ".c", ".cu", ".cuh")
SOURCE_FOLDERS = ("src", "include", "tests", "tools", "bench", "cmake")


def files_under(root, folder, suffixes):
    for directory, folders, names in os.walk(os.path.join(root, folder)):
        folders.sort()
        for name in sorted(names):
            if name.endswith(suffixes):
                yield os.path.relpath(os.path.join(directory, name), root).replace(os.sep, "/")


def read_lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read().splitlines()


def module_of(path):
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ["include", "colibri"]:
        return "colibri"
    return None


def check_file(path, lines):
    module = module_of(path)
    if module is None or module not in MAY_INCLUDE:
        yield f"{path}:1: no module of the table holds this file; the modules are {', '.join(sorted(MAY_INCLUDE))}"
        return
    body = path.endswith(".inl.h")  # algorithms that a translation unit includes inside its own namespace
    guarded = any(line.strip() == "#pragma once" for line in lines)
    if module == "colibri":  # C compilers of any kind read it
        guarded = guarded or any(re.match(r"#ifndef COLIBRI_\w+_H_", line) for line in lines)
    if path.endswith((".h", ".hpp")) and not body and not guarded:
        yield f"{path}:1: a header needs #pragma once"
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        name = header.rsplit("/", 1)[-1]
        if INTRINSICS.match(name) and not path.startswith(INTRINSICS_FOLDER):
            yield f"{path}:{number}: {header} is for {INTRINSICS_FOLDER} alone"
        target = header.split("/")[0]
        if "/" not in header:
            if quote == '"':
                yield f'{path}:{number}: "{header}" does not name its module; write "{module}/{header}" if it is there'
            continue
        if target not in MAY_INCLUDE or target == module or (path, header) in EXCEPTIONS:
            continue
        if target not in MAY_INCLUDE[module]:
            allowed = ", ".join(MAY_INCLUDE[module]) or "nothing"
            yield f"{path}:{number}: {module} may not include {header}; it may include {allowed}"


def check_tree(root):
    sources = {}
    for folder in ("src", "include"):
        for path in files_under(root, folder, CODE):
            sources[path] = read_lines(root, path)
            yield from check_file(path, sources[path])
    for folder in SOURCE_FOLDERS:
        for path in files_under(root, folder, CODE + (".py", ".sh", ".cmake")):
            length = len(sources.get(path) or read_lines(root, path))
            if length > MAX_LINES and path not in LONG_FILES:
                yield f"{path}:{MAX_LINES}: {length} lines; split it, or give its reason in LONG_FILES"
    for path in LONG_FILES:
        if not os.path.exists(os.path.join(root, path)):
            yield f"{path}:1: LONG_FILES lists it, but it is not there"
    for path, header in EXCEPTIONS:
        lines = sources.get(path, [])
        if not any(f'"{header}"' in line for line in lines):
            yield f"{path}:1: EXCEPTIONS allows it {header}, which it does not include"


class SelfTest(unittest.TestCase):
    def faults(self, path, text):
        return list(check_file(path, text.splitlines()))

    def test_an_include_against_the_direction_is_caught(self):
        faults = self.faults("src/base/status.cc", '#include "engine/engine.h"\n')
        self.assertEqual(1, len(faults))
        self.assertIn("base may not include engine/engine.h", faults[0])
        self.assertTrue(faults[0].startswith("src/base/status.cc:1:"))

    def test_an_include_along_the_direction_passes(self):
        self.assertEqual([], self.faults("src/moe/routing.cc", '#include "kernels/select.h"\n#include <vector>\n'))

    def test_modules_of_one_step_do_not_include_each_other(self):
        self.assertEqual(1, len(self.faults("src/text/bpe.cc", '#include "tensor/dtype.h"\n')))
        self.assertEqual(1, len(self.faults("src/format/gguf.cc", '#include "memory/arena.h"\n')))

    def test_the_command_line_sees_engine_and_text_alone(self):
        self.assertEqual([], self.faults("src/cli/run.cc", '#include "engine/engine.h"\n#include "text/tokenizer.h"\n'))
        self.assertEqual(1, len(self.faults("src/cli/run.cc", '#include "model/forward.h"\n')))

    def test_intrinsics_outside_their_folder_are_caught(self):
        for header in ("immintrin.h", "emmintrin.h", "arm_neon.h", "x86intrin.h", "avx512fintrin.h"):
            self.assertEqual(1, len(self.faults("src/moe/routing.cc", f"#include <{header}>\n")), header)
            self.assertEqual([], self.faults("src/kernels/cpu/isa/avx2.cc", f"#include <{header}>\n"), header)

    def test_a_header_without_pragma_once_is_caught(self):
        self.assertEqual(1, len(self.faults("src/base/x.h", "int F();\n")))
        self.assertEqual([], self.faults("src/base/x.h", "#pragma once\nint F();\n"))

    def test_an_include_that_hides_its_module_is_caught(self):
        self.assertEqual(1, len(self.faults("src/base/x.cc", '#include "status.h"\n')))

    def test_a_folder_outside_the_table_is_caught(self):
        self.assertEqual(1, len(self.faults("src/utils/x.cc", "")))

    def test_a_long_file_is_caught(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src", "base"))
            for lines, expected in ((MAX_LINES, False), (MAX_LINES + 1, True)):
                with open(os.path.join(root, "src", "base", "x.cc"), "w", encoding="utf-8") as f:
                    f.write("\n" * lines)
                self.assertEqual(expected, any("601 lines" in fault for fault in check_tree(root)))


def main(arguments):
    if arguments == ["--self-test"]:
        result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(SelfTest))
        return 0 if result.wasSuccessful() else 1
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    faults = list(check_tree(os.path.abspath(root)))
    for fault in faults:
        print(fault)
    if faults:
        print(f"{len(faults)} faults", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
