"""colibri logits against transformers' numbers, in every form that a model comes in."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

from support import ASSETS, NANO, colibri, needs_assets, read_safetensors

GOLDENS = [
    "mixtral", "mixtral_sliding", "mixtral_tied_f16", "qwen2_moe", "qwen2_moe_hybrid", "qwen3_moe", "qwen3_moe_yarn",
    "qwen3_moe_bf16_sharded", "olmoe", "deepseek_v2", "deepseek_v3", "deepseek_v3_yarn", "gpt_oss", "glm4_moe",
    "granite_moe", "phimoe", "dots1", "ernie4_5_moe", "hunyuan_moe", "minimax_m2",
]
TOLERANCE = 1e-4  # of the largest magnitude


def first_difference(actual, expected, tolerance):
    """(index, actual, expected) of the first value that differs by more than tolerance times the largest magnitude."""
    bound = tolerance * max(map(abs, expected))
    for index, (a, e) in enumerate(zip(actual, expected)):
        if not abs(a - e) <= bound:
            return index, a, e
    return None


def model_forms(folder, scratch):
    """(form, path): the folder as hubs hold it, as transformers 5 writes it, and the GGUF file."""
    yield "config.json", folder
    renamed = pathlib.Path(scratch) / folder.name
    renamed.mkdir()
    for file in folder.iterdir():
        if file.name.startswith("model") and not file.name.endswith(".gguf"):
            os.symlink(file, renamed / file.name)
    (renamed / "config.json").write_bytes((folder / "config.v5.json").read_bytes())
    yield "config.v5.json", renamed
    if (folder / "model.gguf").exists():
        yield "model.gguf", folder / "model.gguf"


@needs_assets
class Goldens(unittest.TestCase):
    def check(self, where, model, expected, scratch):
        ids = list(expected["input_ids"][1])
        greedy = list(expected["greedy_ids"][1])
        output = pathlib.Path(scratch) / "o.safetensors"
        colibri("logits", "--model", model, "--ids", " ".join(map(str, ids)), "--output", output, "--hidden",
                "--greedy", len(greedy) - len(ids), check=0)
        actual = read_safetensors(output)
        shape, values = expected["layer_hidden"]
        self.assertEqual(shape, actual["layer_hidden"][0], where)
        n = shape[1] * shape[2]
        for layer in range(shape[0]):
            part = slice(layer * n, (layer + 1) * n)
            fault = first_difference(actual["layer_hidden"][1][part], values[part], TOLERANCE)
            self.assertIsNone(fault, f"{where}: layer {layer} of layer_hidden (index, ours, expected)")
        self.assertEqual(expected["logits"][0], actual["logits"][0], where)
        fault = first_difference(actual["logits"][1], expected["logits"][1], TOLERANCE)
        self.assertIsNone(fault, f"{where}: logits (index, ours, expected)")
        self.assertEqual(greedy, list(actual["greedy_ids"][1]), f"{where}: greedy_ids")

    def test_logits_hidden_states_and_greedy_tokens_agree(self):
        for name in GOLDENS:
            folder = ASSETS / "goldens" / name
            expected = read_safetensors(folder / "expected.safetensors")
            with tempfile.TemporaryDirectory() as scratch:
                for form, model in model_forms(folder, scratch):
                    with self.subTest(golden=name, form=form):
                        self.check(f"{name}, {form}", model, expected, scratch)

    def test_a_trained_model_is_the_same_in_a_folder_and_in_gguf(self):
        with tempfile.TemporaryDirectory() as scratch:
            outputs = []
            for model in ("", "nano-f16.gguf"):  # the folder is bfloat16, whose values nearly all are float16's too
                output = pathlib.Path(scratch) / f"{len(outputs)}.safetensors"
                colibri("logits", "--model", ASSETS / "models" / "nano" / model, "--ids", Command.IDS, "--output", output,
                        "--greedy", 16, check=0)
                outputs.append(read_safetensors(output))
            self.assertIsNone(first_difference(outputs[1]["logits"][1], outputs[0]["logits"][1], 1e-5))
            self.assertEqual(outputs[0]["greedy_ids"], outputs[1]["greedy_ids"])


class Command(unittest.TestCase):
    IDS = "1 872 198 40 2 198 1 77 3 9 5"

    def logits(self, folder, *arguments):
        output = pathlib.Path(folder) / "o.safetensors"
        colibri("logits", "--model", NANO, "--ids", self.IDS, "--output", output, *arguments, check=0)
        return read_safetensors(output)

    def test_chunks_and_threads_never_change_a_bit(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = self.logits(folder, "--hidden", "--threads", 1)
            for chunk in (1, 3, 7):
                for threads in (1, 2):
                    self.assertEqual(whole, self.logits(folder, "--hidden", "--threads", threads, "--chunk", chunk))

    def test_shapes_are_as_documented(self):
        with tempfile.TemporaryDirectory() as folder:
            tensors = self.logits(folder, "--hidden", "--greedy", 3)
            self.assertEqual([11, 3072], tensors["logits"][0])
            self.assertEqual([6, 11, 256], tensors["layer_hidden"][0])
            self.assertEqual([14], tensors["greedy_ids"][0])
            self.assertEqual(list(map(int, self.IDS.split())), list(tensors["greedy_ids"][1])[:11])
            self.assertEqual({"logits"}, set(self.logits(folder)))

    def test_the_first_greedy_token_is_the_largest_of_the_last_logits(self):
        with tempfile.TemporaryDirectory() as folder:
            tensors = self.logits(folder, "--greedy", 1)
            last = list(tensors["logits"][1])[-3072:]
            self.assertEqual(last.index(max(last)), tensors["greedy_ids"][1][11])

    def test_bad_ids_are_named_and_leave_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "o.safetensors"
            for ids, word in (("1 x 2", "x"), ("1 -2", "-2"), ("1 3072", "3072"), ("", "at least one")):
                result = colibri("logits", "--model", NANO, "--ids", ids, "--output", output, check=1)
                self.assertIn(word, result.stderr)
                self.assertFalse(output.exists())

    def test_ids_come_from_standard_input_too(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "i.safetensors"
            colibri("logits", "--model", NANO, "--ids", "-", "--output", output, stdin=self.IDS.replace(" ", ",\n"), check=0)
            self.assertEqual(self.logits(folder), read_safetensors(output))

    def test_an_output_that_cannot_be_written_is_named(self):
        result = colibri("logits", "--model", NANO, "--ids", "1", "--output", "/no/such/folder/o.safetensors", check=1)
        self.assertIn("/no/such/folder/o.safetensors", result.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
