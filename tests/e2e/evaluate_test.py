"""colibri perplexity and kld: against the same figures worked out here from the logits that the program writes."""

import json
import math
import pathlib
import struct
import sys
import tempfile
import unittest

from support import ASSETS, NANO, colibri, needs_assets, read_safetensors

TEXT = "\n\n".join(
    f"On a sunny morning, a curious girl named {name} woke up in a {place}. She owned a blue {thing} and took it everywhere. "
    f"{name} had promised to bring plum cake to the party. And if you visit the {place}, you may still see them.\n\n{days}, Monday."
    for name, place, thing, days in [
        ("Lucy", "meadow", "map", "Friday, Saturday, Sunday"), ("Hana", "farm", "puppet", "Thursday, Friday, Saturday, Sunday"),
        ("Olga", "castle", "kite", "Saturday, Sunday"), ("Nina", "village", "drum", "Wednesday, Thursday, Friday, Saturday, Sunday")])
CONTEXT = 64
Q4 = ASSETS / "models" / "nano" / "nano-q4_0.gguf"


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text(TEXT, encoding="utf-8")

    def json(self, *arguments):
        """The report in the arithmetic of `logits`, unless the arguments name another."""
        if "--activations" not in arguments:
            arguments += ("--activations", "f32")
        return json.loads(colibri(*arguments, "--text", self.text, "--context", CONTEXT, "--json", check=0).stdout)

    def ids(self):
        return list(map(int, colibri("tokenize", "--model", NANO, "--bare", stdin=TEXT, check=0).stdout.split()))

    def log_probabilities(self, model, window):
        """[position][token], in double precision."""
        output = self.folder / "o.safetensors"
        colibri("logits", "--model", model, "--ids", " ".join(map(str, window)), "--output", output, check=0)
        (n, vocab), values = read_safetensors(output)["logits"]
        rows = []
        for i in range(n):
            row = list(values[i * vocab:(i + 1) * vocab])
            top = max(row)
            log_sum = top + math.log(math.fsum(math.exp(value - top) for value in row))
            rows.append([value - log_sum for value in row])
        return rows


def mean_and_error(values):
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values) / (len(values) - 1))


class Perplexity(Files):
    def expected(self, windows, first):
        nll = []
        for window in windows:
            rows = self.log_probabilities(NANO, window)
            nll += [-rows[i][window[i + 1]] for i in range(first, len(window) - 1)]
        return mean_and_error(nll)

    def check_report(self, report, mean, error):
        self.assertAlmostEqual(mean, report["nll"], delta=1e-10)
        self.assertAlmostEqual(error, report["nll_standard_error"], delta=1e-10)
        self.assertAlmostEqual(math.exp(mean), report["value"], delta=1e-8)
        self.assertAlmostEqual(math.exp(mean) * error, report["standard_error"], delta=1e-8)
        for side, bound in zip((-1, 1), report["interval_95"]):
            self.assertAlmostEqual(math.exp(mean + side * 1.959963984540054 * error), bound, delta=1e-8 * bound)

    def test_it_is_that_of_the_second_half_of_each_window(self):
        ids = self.ids()
        n = len(ids) // CONTEXT
        self.assertGreater(n, 2)
        report = self.json("perplexity")
        self.assertEqual((len(ids), n, n * (CONTEXT // 2 - 1)),
                         (report["text_tokens"], report["chunks"], report["scored_tokens"]))
        windows = [ids[i * CONTEXT:(i + 1) * CONTEXT] for i in range(n)]
        self.check_report(report["perplexity"], *self.expected(windows, CONTEXT // 2))

    def test_with_a_stride_it_is_that_of_the_last_tokens_of_each_window(self):
        ids = self.ids()
        report = self.json("perplexity", "--stride", 24, "--chunks", 4)
        self.assertEqual((4, 96), (report["chunks"], report["scored_tokens"]))
        windows = [ids[i * 24:i * 24 + CONTEXT] for i in range(4)]
        self.check_report(report["perplexity"], *self.expected(windows, CONTEXT - 24 - 1))

    def test_batches_and_threads_never_change_a_bit(self):
        expected = self.json("perplexity", "--threads", 1)["perplexity"]
        for options in (("--max-batch", 5), ("--threads", 2, "--max-batch", 33)):
            self.assertEqual(expected, self.json("perplexity", *options)["perplexity"])

    def test_text_reports_the_same_and_comes_from_standard_input_too(self):
        value = self.json("perplexity", "--chunks", 2, "--activations", "int8")["perplexity"]["value"]
        result = colibri("perplexity", "--text", "-", "--context", CONTEXT, "--chunks", 2, stdin=TEXT, check=0)
        self.assertRegex(result.stdout, rf"(?m)^perplexity +{value:.6f} \+/- ")
        self.assertEqual("", result.stderr)

    def test_8_bit_activations_are_the_default_and_cost_little(self):
        fast = json.loads(colibri("perplexity", "--text", self.text, "--context", CONTEXT, "--json", check=0).stdout)["perplexity"]["nll"]
        exact = self.json("perplexity")["perplexity"]["nll"]
        self.assertEqual(fast, self.json("perplexity", "--activations", "int8")["perplexity"]["nll"])
        self.assertNotEqual(fast, exact)
        self.assertAlmostEqual(fast, exact, delta=0.02 * exact)
        divergence = self.json("kld", "--reference", NANO, "--activations", "int8")["kld"]["value"]
        self.assertGreater(divergence, 0)
        self.assertLess(divergence, 0.01)

    def test_what_cannot_be_measured_is_refused_by_name(self):
        for options, reason in (
                (("--text", self.folder / "none.txt"), "none.txt"),
                (("--text", self.text, "--context", 2048), "less than one window of the context, 2048"),
                (("--text", self.text, "--context", 64, "--stride", 64), "stride is 64"),
                (("--text", self.text, "--context", 2), "at least 2 are needed")):
            result = colibri("perplexity", *options, check=1)
            self.assertIn(reason, result.stderr)
            self.assertEqual("", result.stdout)
        colibri("perplexity", "--text", self.text, "--context", 1, check=2)
        colibri("perplexity", check=2)

    def test_a_context_beyond_the_models_is_refused(self):
        self.text.write_text(TEXT * 10, encoding="utf-8")
        result = colibri("perplexity", "--text", self.text, "--context", 2049, check=1)
        self.assertIn("the model was made for 2048 positions", result.stderr)


class Kld(Files):
    def test_a_model_is_exactly_nowhere_from_itself(self):
        report = self.json("kld", "--reference", NANO)
        for key in ("value", "standard_error", "median", "quantile_90", "quantile_99", "maximum"):
            self.assertEqual(0, report["kld"][key], key)
        self.assertEqual({"value": 1, "standard_error": 0}, report["same_top"])
        self.assertEqual({"value": 0, "standard_error": 0}, report["probability_difference_rms"])
        self.assertEqual(report["reference_perplexity"], report["perplexity"])
        self.assertEqual(self.json("perplexity")["perplexity"], report["perplexity"])

    @needs_assets
    def test_it_is_that_of_the_reference_from_the_model(self):
        ids = self.ids()
        report = self.json("kld", "--model", Q4, "--reference", NANO, "--chunks", 2)
        divergences, same, squares = [], [], []
        for window in (ids[:CONTEXT], ids[CONTEXT:2 * CONTEXT]):
            model, reference = (self.log_probabilities(path, window) for path in (Q4, NANO))
            for i in range(CONTEXT // 2, CONTEXT - 1):
                p, q = model[i], reference[i]
                divergences.append(math.fsum(math.exp(b) * (b - a) for a, b in zip(p, q)))
                same.append(p.index(max(p)) == q.index(max(q)))
                squares.append((math.exp(p[window[i + 1]]) - math.exp(q[window[i + 1]])) ** 2)
        mean, error = mean_and_error(divergences)
        self.assertGreater(mean, 1e-5)
        self.assertAlmostEqual(mean, report["kld"]["value"], delta=1e-10)
        self.assertAlmostEqual(error, report["kld"]["standard_error"], delta=1e-10)
        self.assertAlmostEqual(max(divergences), report["kld"]["maximum"], delta=1e-9)
        self.assertAlmostEqual(sorted(divergences)[31] / 2 + sorted(divergences)[30] / 2, report["kld"]["median"], delta=1e-10)
        self.assertEqual(sum(same) / len(same), report["same_top"]["value"])
        self.assertAlmostEqual(math.sqrt(math.fsum(squares) / len(squares)), report["probability_difference_rms"]["value"],
                               delta=1e-10)

    def test_a_reference_of_another_tokenizer_is_refused_with_the_first_difference(self):
        def stored(token):
            return struct.pack("<Q", len(token)) + token

        data = bytearray(NANO.read_bytes())
        comma, period = data.index(stored(b",")), data.index(stored(b"."))
        data[comma:comma + 9], data[period:period + 9] = stored(b"."), stored(b",")
        other = self.folder / "other.gguf"
        other.write_bytes(data)
        result = colibri("kld", "--reference", other, "--text", self.text, "--context", CONTEXT, check=1)
        ids = self.ids()
        name = {",": None, ".": None}
        for token in name:
            (name[token],) = map(int, colibri("tokenize", "--bare", token, check=0).stdout.split())
        self.assertIn(f"first at token {ids.index(name[','])} of the text", result.stderr)
        self.assertIn(f"the model's token {name[',']} (\",\"), the reference's token {name['.']} (\",\")", result.stderr)
        self.assertEqual("", result.stdout)

    def test_text_names_every_figure(self):
        output = colibri("kld", "--reference", NANO, "--text", self.text, "--context", CONTEXT, "--chunks", 2, check=0).stdout
        for label in ("KL divergence, mean", "median", "maximum", "perplexity, model", "perplexity, reference",
                      "same most likely token", "difference of probability"):
            self.assertIn(label, output)

    def test_a_missing_reference_is_named(self):
        result = colibri("kld", "--reference", "/no/such/model.gguf", "--text", self.text, check=1)
        self.assertIn("/no/such/model.gguf", result.stderr)
        colibri("kld", "--text", self.text, check=2)


if __name__ == "__main__":
    sys.exit(unittest.main())
