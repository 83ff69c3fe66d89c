"""colibri tokenize: the goldens of Hugging Face's tokenizers, line by line, and the ways to ask."""

import json
import sys
import tempfile
import unittest

from support import ASSETS, NANO, colibri, needs_assets


@needs_assets
class Goldens(unittest.TestCase):
    def check(self, name, model):
        golden = (ASSETS / "tokenizers" / name / "golden.jsonl").read_text(encoding="utf-8")
        expected = [json.loads(line) for line in golden.split("\n") if line]
        questions = "".join(json.dumps({"text": line["text"]}) + "\n" for line in expected)
        answers = colibri("tokenize", "--model", model, "--jsonl", stdin=questions, check=0).stdout
        actual = [json.loads(line) for line in answers.split("\n") if line]
        self.assertEqual(len(expected), len(actual))
        for number, (ours, theirs) in enumerate(zip(actual, expected), 1):
            del theirs["text"]
            self.assertEqual(theirs, ours, f"{name}, line {number}")

    def test_every_line_of_every_tokenizer_agrees(self):
        for folder in sorted((ASSETS / "tokenizers").iterdir()):
            with self.subTest(tokenizer=folder.name):
                self.check(folder.name, folder)

    def test_a_file_is_as_good_as_its_folder(self):
        self.check("mistral_v1", ASSETS / "tokenizers" / "mistral_v1" / "tokenizer.json")

    def test_nanos_file_and_folder_have_the_same_tokenizer(self):
        lines = (ASSETS / "models" / "nano" / "corpus.txt").read_text(encoding="utf-8").splitlines()[:500]
        questions = "".join(json.dumps({"text": line}) + "\n" for line in lines)
        outputs = {colibri("tokenize", "--model", model, "--jsonl", stdin=questions, check=0).stdout
                   for model in (NANO, ASSETS / "models" / "nano")}
        self.assertEqual(1, len(outputs))


class Ways(unittest.TestCase):
    def test_ids_go_there_and_back(self):
        text = "Hello, wörld!\n\n  42 🐦"
        ids = colibri("tokenize", text, check=0).stdout
        self.assertEqual(text + "\n", colibri("tokenize", "--decode", ids, check=0).stdout)
        self.assertEqual(ids, colibri("tokenize", stdin=text, check=0).stdout)
        self.assertEqual(len(ids.split()), int(colibri("tokenize", "--count", text, check=0).stdout))

    def test_an_id_outside_the_vocabulary_is_named(self):
        result = colibri("tokenize", "--decode", "1 99999999", check=1)
        self.assertEqual("", result.stdout)
        self.assertIn("99999999", result.stderr)

    def test_pieces_are_a_line_a_token(self):
        ids = colibri("tokenize", "a \"b\"\n", check=0).stdout.split()
        lines = colibri("tokenize", "--pieces", "a \"b\"\n", check=0).stdout.splitlines()
        self.assertEqual(ids, [line.split("\t")[0] for line in lines])
        for line in lines:
            json.loads(line.split("\t", 1)[1])

    def test_every_character_survives_json(self):
        text = "".join(map(chr, [*range(1, 0x180), 0x2028, 0xFFFD, 0x1F426])) + "\\\"/"
        answer = json.loads(colibri("tokenize", "--jsonl", stdin=json.dumps({"text": text}), check=0).stdout)
        self.assertEqual(["ids", "ids_bare", "decoded", "decoded_skip"], list(answer))

    def test_a_bad_line_is_named_after_the_answers_before_it(self):
        for bad in ("nonsense", "{}", "[]", '{"text": 1}', '{"text": "\\ud800"}'):
            result = colibri("tokenize", "--jsonl", stdin='{"text": "a"}\n' + bad + "\n", check=1)
            self.assertEqual(1, result.stdout.count("\n"), bad)
            self.assertIn("line 2", result.stderr)

    def test_a_file_is_measured(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("Once upon a time there was a bird. " * 1000)
            file.flush()
            self.assertRegex(colibri("tokenize", "--bench", file.name, check=0).stdout, r"^\d+ bytes, \d+ tokens, .* MB/s")


if __name__ == "__main__":
    sys.exit(unittest.main())
