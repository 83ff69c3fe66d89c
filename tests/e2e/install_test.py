"""cmake --install: what is put where, and that program and library work from there."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import NANO, SOURCE, TIMEOUT_S, colibri

BUILD = os.environ["COLIBRI_BUILD"]


def run(*command, **options):
    result = subprocess.run(list(map(str, command)), capture_output=True, encoding="utf-8", timeout=TIMEOUT_S, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


class Installation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = pathlib.Path(cls.folder.name) / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def test_everything_is_in_its_place(self):
        for path in ("bin/colibri", "include/colibri/colibri.h", "share/colibri/models/nano/nano-q8_0.gguf",
                     "share/colibri/models/nano/README.md", "share/man/man1/colibri.1",
                     "share/bash-completion/completions/colibri", "share/zsh/site-functions/_colibri",
                     "share/fish/vendor_completions.d/colibri.fish"):
            self.assertTrue((self.prefix / path).stat().st_size > 0, path)
        self.assertTrue(list(self.prefix.glob("lib*/**/libcolibri.so")))
        self.assertTrue(list(self.prefix.glob("lib*/**/colibri-config.cmake")))

    def test_the_installed_program_answers_with_the_installed_model(self):
        environment = {key: value for key, value in os.environ.items() if key != "COLIBRI_MODELS"}
        answer = run(self.prefix / "bin" / "colibri", "run", "What is 6x7?", env=environment, cwd="/")
        self.assertEqual(colibri("run", "What is 6x7?", check=0).stdout, answer)

    def test_the_library_shows_the_c_api_alone(self):
        library = next(self.prefix.glob("lib*/**/libcolibri.so"))
        names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
        self.assertIn("colibri_engine_load", names)
        self.assertEqual([], [name for name in names if not name.startswith("colibri_")])

    def test_another_project_finds_builds_and_runs_against_it(self):
        build = pathlib.Path(self.folder.name) / "consumer"
        run("cmake", "-S", SOURCE / "tests" / "e2e" / "consumer", "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        prompt = "Once upon a time"
        expected = colibri("run", NANO, prompt, "--raw", "--max-tokens", 8, check=0).stdout
        for language in ("c", "cpp"):
            self.assertEqual(expected, run(build / f"consumer_{language}", NANO, prompt), language)


if __name__ == "__main__":
    sys.exit(unittest.main())
