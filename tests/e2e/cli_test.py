"""The command line as a whole: help, usage errors, exit codes, and where output goes."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import NANO, PROGRAM, TIMEOUT_S, colibri

COMMANDS = ["run", "chat", "inspect", "tokenize", "logits", "perplexity", "kld", "bench", "completion", "man"]


class Help(unittest.TestCase):
    def test_help_lists_every_command_and_the_exit_codes(self):
        result = colibri("--help", check=0)
        for command in COMMANDS:
            self.assertRegex(result.stdout, rf"(?m)^  {command} ")
        self.assertIn("Exit codes:", result.stdout)
        self.assertEqual("", result.stderr)

    def test_every_command_explains_itself_on_standard_output(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                result = colibri(command, "--help", check=0)
                self.assertIn(f"Usage: colibri {command}", result.stdout)
                self.assertEqual("", result.stderr)
                self.assertLessEqual(max(map(len, result.stdout.splitlines())), 120)

    def test_version_is_one_line(self):
        self.assertRegex(colibri("--version", check=0).stdout, r"^colibri \d+\.\d+\.\d+\n$")

    def test_completions_are_valid_for_the_shells_that_are_here(self):
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell=shell):
                script = colibri("completion", shell, check=0).stdout
                self.assertIn("--max-tokens" if shell != "fish" else "-l max-tokens", script)
                for folder in ("/bin", "/usr/bin"):
                    if os.path.exists(f"{folder}/{shell}"):
                        subprocess.run([shell, "-n"], input=script, encoding="utf-8", check=True, timeout=TIMEOUT_S)
                        break

    def test_bash_completes_commands_and_options(self):
        script = colibri("completion", "bash", check=0).stdout
        probe = script + """
            complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _colibri; echo "${COMPREPLY[*]}"; }
            complete_words colibri ins
            complete_words colibri run --max
            complete_words colibri completion f
        """
        result = subprocess.run(["bash"], input=probe, capture_output=True, encoding="utf-8", cwd="/", timeout=TIMEOUT_S)
        self.assertEqual(["inspect", "--max-tokens", "fish"], result.stdout.split(), result.stderr)

    def test_the_man_page_documents_every_option_of_every_command(self):
        page = colibri("man", check=0).stdout
        self.assertTrue(page.startswith(".TH COLIBRI 1"))
        for command in COMMANDS:
            self.assertIn(f".SS colibri {command}", page)
            for line in colibri(command, "--help", check=0).stdout.splitlines():
                for name in re.findall(r"--[a-z-]+", line[:28]) if line.startswith("  -") else []:
                    self.assertIn(name.replace("-", "\\-"), page)


class UsageErrors(unittest.TestCase):
    CASES = [
        [],
        ["fly"],
        ["run"],
        ["run", "--no-such-flag", "hello"],
        ["run", "a", "b", "c"],
        ["run", str(NANO)],  # a model without a prompt
        ["run", "hello", "--temp", "warm"],
        ["run", "hello", "--temp", "-1"],
        ["run", "hello", "--threads", "0"],
        ["run", "hello", "--top-p", "1.5"],
        ["run", "hello", "--max-tokens", "99999999999"],
        ["run", "hello", "--max-tokens", "1.5"],
        ["run", "hello", "--seed", "18446744073709551616"],
        ["run", "hello", "--seed", "-1"],
        ["run", "hello", "--temp="],
        ["logits", "--ids", "1"],
        ["inspect"],
        ["completion", "tcsh"],
        ["tokenize", "--jsonl", "--count"],
        ["bench", "--batch", "0"],
    ]

    def test_each_is_explained_on_standard_error_with_exit_code_2(self):
        for arguments in self.CASES:
            with self.subTest(arguments=arguments):
                result = colibri(*arguments, check=2)
                self.assertEqual("", result.stdout)
                self.assertIn("--help", result.stderr)

    def test_an_unknown_flag_is_named(self):
        self.assertIn("--no-such-flag", colibri("run", "--no-such-flag", "x", check=2).stderr)


class Failures(unittest.TestCase):
    def test_a_missing_model_is_named_with_exit_code_1(self):
        for arguments in (["run", "/no/such/model.gguf", "hi"], ["chat", "/no/such/model.gguf"],
                          ["inspect", "/no/such/model.gguf"], ["bench", "--model", "/no/such/model.gguf"],
                          ["tokenize", "--model", "/no/such/model.gguf", "x"],
                          ["logits", "--model", "/no/such/model.gguf", "--ids", "1", "--output", "/dev/null"]):
            with self.subTest(arguments=arguments):
                result = colibri(*arguments, check=1)
                self.assertEqual("", result.stdout)
                self.assertIn("/no/such/model.gguf", result.stderr)

    def test_a_file_that_is_no_model_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.gguf"
            path.write_bytes(b"GGUF" + b"\xff" * 60)
            result = colibri("inspect", path, check=1)
            self.assertEqual("", result.stdout)
            self.assertIn(str(path), result.stderr)

    def test_a_missing_default_model_says_where_it_was_looked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            result = colibri("run", "hi", environment={"COLIBRI_MODELS": folder}, check=1)
            self.assertIn(f"{folder}/nano/nano-q8_0.gguf", result.stderr)
            self.assertIn("COLIBRI_MODELS", result.stderr)

    def test_an_unknown_instruction_set_is_refused(self):
        result = colibri("run", "hi", environment={"COLIBRI_FORCE_ISA": "abacus"}, check=1)
        self.assertIn("abacus", result.stderr)

    def test_a_full_disk_is_a_failure(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAM, "inspect", NANO], stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
        self.assertEqual(1, result.returncode)
        self.assertIn(b"standard output", result.stderr)


class Pipes(unittest.TestCase):
    def test_closed_standard_streams_read_as_empty_and_fail_to_write(self):
        def with_closed(stream, *arguments):
            command = subprocess.list2cmdline([PROGRAM, *arguments])
            return subprocess.run(["sh", "-c", f"{command} {stream}"], capture_output=True, encoding="utf-8",
                                  timeout=TIMEOUT_S)

        self.assertEqual((0, ""), (with_closed("<&-", "chat").returncode, with_closed("<&-", "chat").stdout))
        result = with_closed(">&-", "man")
        self.assertEqual(1, result.returncode)
        self.assertIn("standard output", result.stderr)

    def test_a_reader_that_leaves_ends_the_program_quietly(self):
        for arguments in (["inspect", str(NANO)], ["run", "Tell me a story.", "--ignore-eos", "--max-tokens", "400"],
                          ["man"]):
            with self.subTest(arguments=arguments):
                process = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                process.stdout.read(1)
                process.stdout.close()
                error = process.stderr.read()
                process.stderr.close()
                self.assertEqual(0, process.wait(timeout=TIMEOUT_S))
                self.assertEqual(b"", error)


class Machines(unittest.TestCase):
    def test_threads_are_those_that_the_affinity_mask_allows(self):
        cpu = min(os.sched_getaffinity(0))
        result = subprocess.run([PROGRAM, "bench", "--prompt", "4", "--generate", "1", "--repeat", "1", "--json"],
                                capture_output=True, encoding="utf-8", check=True, timeout=TIMEOUT_S,
                                preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        self.assertEqual(1, json.loads(result.stdout)["threads"])


class Inspect(unittest.TestCase):
    def test_json_says_what_the_model_is(self):
        report = json.loads(colibri("inspect", NANO, "--json", "--plan", check=0).stdout)
        self.assertEqual("qwen3moe", report["config"]["architecture"])
        self.assertEqual(5, len(report["layers"]))
        self.assertEqual(16, report["layers"][0]["ffn"]["n_experts"])
        self.assertEqual(2, report["layers"][0]["ffn"]["n_selected"])
        self.assertAlmostEqual(17.5e6, report["total_parameters"], delta=0.1e6)
        self.assertAlmostEqual(3.8e6, report["active_parameters"], delta=0.2e6)
        self.assertEqual(report["n_tensors"], len(report["tensors"]))
        self.assertEqual(report["tensor_bytes"], sum(tensor["bytes"] for tensor in report["tensors"]))
        self.assertEqual(report["tensor_bytes"], sum(entry["bytes"] for entry in report["types"].values()))
        memory = report["memory"]
        self.assertEqual(memory["total_bytes"], memory["weight_bytes"] +
                         max(memory["loading_bytes"], memory["kv_bytes"] + memory["scratch_bytes"]))
        # keys and values of 5 layers, 2 heads of 64, in two bytes each
        self.assertEqual("f16", memory["kv_type"])
        self.assertEqual(5 * 2 * 2 * 64 * 2, report["kv_bytes_per_token"])
        report = json.loads(colibri("inspect", NANO, "--json", "--kv-type", "q8_0", check=0).stdout)
        self.assertEqual("q8_0", report["memory"]["kv_type"])
        self.assertEqual(5 * 2 * 2 * (64 + 4), report["kv_bytes_per_token"])

    def test_text_shows_every_tensor_and_on_request_every_layer(self):
        text = colibri("inspect", NANO, check=0).stdout
        self.assertIn("blk.4.ffn_down_exps.weight", text)
        self.assertNotIn("layer 4", text)
        self.assertIn("layer 4", colibri("inspect", NANO, "--plan", check=0).stdout)


class Bench(unittest.TestCase):
    def test_json_has_the_medians_and_every_run(self):
        report = json.loads(colibri("bench", "--prompt", 40, "--generate", 4, "--batch", 2, "--repeat", 3, "--threads", 1,
                                    "--json", check=0).stdout)
        self.assertEqual(3, len(report["runs"]))
        for key in ("load_s", "prefill_tokens_per_s", "decode_tokens_per_s", "peak_rss_bytes", "bytes_per_token"):
            values = sorted(run[key] for run in report["runs"])
            self.assertGreater(values[0], 0, key)
            self.assertEqual(values[1], report[key], key)
        self.assertLess(report["expert_calls"], report["expert_calls_per_token_dispatch"])
        self.assertEqual(1, report["threads"])

    def test_text_names_every_figure(self):
        text = colibri("bench", "--prompt", 8, "--generate", 2, "--repeat", 1, check=0).stdout
        for word in ("load", "prefill", "decode", "peak memory", "expert calls"):
            self.assertIn(word, text)


if __name__ == "__main__":
    sys.exit(unittest.main())
