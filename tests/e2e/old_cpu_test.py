"""One program for every x86-64 CPU: what runs where is proven by an emulator that knows no more than the CPU did."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from support import PROGRAM, TIMEOUT_S, colibri

# The emulator's CPU, the kernels that it gets, and something that it lacks.
CPUS = (("Nehalem", "generic", ("avx2", "AVX2")),       # SSE4.2 alone
        ("SandyBridge", "generic", ("avx2", "AVX2")),   # AVX, and none of FMA, F16C and AVX2
        ("Haswell", "avx2", ("avx512", "AVX-512")))
QUESTION = "What is 2 + 3?"


def emulated(cpu, *arguments, **environment):
    return subprocess.run(["qemu-x86_64", "-cpu", cpu, PROGRAM, *arguments], capture_output=True, encoding="utf-8",
                          env=dict(os.environ, **environment), timeout=TIMEOUT_S)


@unittest.skipUnless(shutil.which("qemu-x86_64"), "no qemu-x86_64: install qemu-user")
class OldCpus(unittest.TestCase):
    def test_the_program_answers_as_the_same_kernels_do_on_this_cpu(self):
        for cpu, isa, _ in CPUS:
            with self.subTest(cpu=cpu):
                here = colibri("run", QUESTION, environment={"COLIBRI_FORCE_ISA": isa}, check=0).stdout
                there = emulated(cpu, "run", QUESTION)
                self.assertEqual((0, here), (there.returncode, there.stdout), there.stderr)
                self.assertIn("5", there.stdout)

    def test_the_best_kernels_that_the_cpu_has_are_taken(self):
        for cpu, isa, _ in CPUS:
            with self.subTest(cpu=cpu):
                result = emulated(cpu, "bench", "--prompt", "4", "--generate", "1", "--repeat", "1", "--json")
                self.assertEqual(0, result.returncode, result.stderr)
                self.assertEqual(isa, json.loads(result.stdout)["isa"])

    def test_kernels_that_the_cpu_lacks_are_refused_by_name(self):
        for cpu, _, (isa, needs) in CPUS:
            with self.subTest(cpu=cpu):
                refused = emulated(cpu, "run", QUESTION, COLIBRI_FORCE_ISA=isa)
                self.assertEqual((1, ""), (refused.returncode, refused.stdout))
                self.assertIn(needs, refused.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
