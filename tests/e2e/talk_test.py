"""run and chat: answers, their text and their flags; a conversation through a pipe and on a terminal."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import ASSETS, NANO, PROGRAM, TIMEOUT_S, colibri, needs_assets

STORY = "Tell me a story."
ATTEMPTS = 5  # to be faster than an answer


class Run(unittest.TestCase):
    def test_nano_answers_when_no_model_is_named(self):
        result = colibri("run", "What is 23 + 58?", check=0)
        self.assertIn("81", result.stdout)
        self.assertEqual("", result.stderr)
        self.assertTrue(result.stdout.endswith("\n"))

    def test_a_named_model_gives_the_same_answer(self):
        self.assertEqual(colibri("run", "6x7=", check=0).stdout, colibri("run", NANO, "6x7=", check=0).stdout)

    def test_a_prompt_from_standard_input_is_the_same_prompt(self):
        self.assertEqual(colibri("run", "6x7=", check=0).stdout, colibri("run", "-", stdin="6x7=\n", check=0).stdout)

    def test_a_prompt_in_brackets_or_with_dashes_arrives_whole(self):
        for prompt in ("[1, 2]", "a,b", "#x", "%{y}", "x=1"):
            direct = colibri("run", prompt, "--max-tokens", 8, check=0).stdout
            self.assertEqual(direct, colibri("run", "-", "--max-tokens", 8, stdin=prompt, check=0).stdout, prompt)
        self.assertEqual(colibri("run", "-", "--max-tokens", 8, stdin="--x", check=0).stdout,
                         colibri("run", "--max-tokens", 8, "--", "--x", check=0).stdout)

    def test_max_tokens_ends_an_answer(self):
        report = json.loads(colibri("run", STORY, "--max-tokens", 5, "--json", check=0).stdout)
        self.assertEqual(5, len(report["tokens"]))
        self.assertEqual("length", report["finish"])

    def test_a_stop_text_ends_an_answer_and_is_not_shown(self):
        whole = colibri("run", STORY, check=0).stdout
        word = whole.split()[6]
        cut = colibri("run", STORY, "--stop", word, check=0).stdout
        self.assertEqual(whole[:whole.index(word)], cut.rstrip("\n") if not cut.startswith(whole) else cut)

    def test_the_same_seed_gives_the_same_answer_and_others_differ(self):
        answers = [colibri("run", STORY, "--temp", 1.2, "--seed", seed, "--max-tokens", 60, check=0).stdout
                   for seed in (1, 1, 2, 3)]
        self.assertEqual(answers[0], answers[1])
        self.assertGreater(len(set(answers)), 1)

    def test_threads_do_not_change_an_answer(self):
        answers = {colibri("run", STORY, "--threads", n, "--temp", 0.9, "--seed", 5, "--max-tokens", 60, check=0).stdout
                   for n in (1, 2, 3)}
        self.assertEqual(1, len(answers))

    def test_a_system_message_reaches_the_model(self):
        plain = json.loads(colibri("run", "Who are you?", "--json", check=0).stdout)
        told = json.loads(colibri("run", "Who are you?", "--system", "You are a helpful assistant.", "--json",
                                  check=0).stdout)
        self.assertNotEqual(plain["n_prompt"], told["n_prompt"])

    def test_raw_text_gets_no_chat_format_around_it(self):
        report = json.loads(colibri("run", "Once upon a time", "--raw", "--max-tokens", 8, "--json", check=0).stdout)
        n_ids = len(colibri("tokenize", "Once upon a time", check=0).stdout.split())
        self.assertEqual(n_ids, report["n_prompt"])

    def test_raw_text_has_no_place_for_a_system_message(self):
        self.assertIn("--system", colibri("run", "x", "--raw", "--system", "y", check=1).stderr)

    def test_another_chat_format_is_refused_by_file_and_way_out(self):
        data = bytearray(NANO.read_bytes())
        begin = data.index(b"tokenizer.chat_template")
        data[begin:begin + 2000] = data[begin:begin + 2000].replace(b"<|im_start|>", b"<|im_begin|>")
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "other.gguf")
            with open(model, "wb") as file:
                file.write(data)
            for command in (["run", model, "6x7="], ["chat", model]):
                result = colibri(*command, check=1)
                self.assertEqual("", result.stdout)
                self.assertIn(model, result.stderr)
                self.assertIn("--raw", result.stderr)
            self.assertEqual(colibri("run", NANO, "--raw", "6x7=", check=0).stdout,
                             colibri("run", model, "--raw", "6x7=", check=0).stdout)

    def test_stats_go_to_standard_error(self):
        result = colibri("run", "6x7=", "--stats", check=0)
        self.assertRegex(result.stderr, r"^\d+ tokens, ")
        self.assertNotIn("tokens/s", result.stdout)

    def test_a_prompt_beyond_the_context_is_refused_with_the_counts(self):
        result = colibri("run", "word " * 200, "--ctx", 64, check=1)
        self.assertEqual("", result.stdout)
        self.assertIn("64", result.stderr)

    def test_a_context_that_fills_up_is_said(self):
        result = colibri("run", STORY, "--ctx", 64, "--ignore-eos", check=0)
        self.assertIn("64 tokens is full", result.stderr)

    def test_ctrl_c_stops_the_answer_with_exit_code_130(self):
        # Nano fills its context in well under a second: a busy machine may give us the word too late.
        for _ in range(ATTEMPTS):
            process = subprocess.Popen([PROGRAM, "run", STORY, "--ignore-eos"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=TIMEOUT_S)
            if b"context" not in error:
                break
        self.assertEqual(130, process.returncode)
        self.assertEqual(b"", error)

    @needs_assets
    def test_nano_writes_what_transformers_writes(self):
        # Greedy, from the quantised file: the texts whose best tokens are not close together.
        same = 0
        lines = (ASSETS / "models" / "nano" / "eval.jsonl").read_text(encoding="utf-8").splitlines()
        cases = [json.loads(line) for line in lines[::60]]
        for case in cases:
            if len(case["messages"]) != 1:
                continue
            answer = colibri("run", "-", stdin=case["messages"][0]["content"], check=0).stdout.strip()
            same += answer == case["answer"]
        self.assertGreaterEqual(same, sum(len(case["messages"]) == 1 for case in cases) - 1)


class ChatThroughAPipe(unittest.TestCase):
    def test_each_line_is_answered_and_only_answers_are_on_standard_output(self):
        result = colibri("chat", stdin="What is 6x7?\nWhat is 6x8?\n", check=0)
        self.assertIn("42", result.stdout)
        self.assertIn("48", result.stdout)
        self.assertEqual("", result.stderr)

    def test_a_turn_knows_the_turns_before_it_and_reset_forgets_them(self):
        first = colibri("chat", stdin="What is 6x7?\n/stats\nWhat is 6x7?\n/reset\nWhat is 6x7?\n", check=0)
        prompts = [int(n) for n in re.findall(r"prompt (\d+) tokens", first.stderr)]
        self.assertEqual(2, len(prompts))
        self.assertGreater(prompts[0], prompts[1])

    def test_what_a_turn_shares_with_the_turns_before_is_not_computed_again(self):
        result = colibri("chat", "--stats", stdin="What is 6x7?\nWhat is 6x8?\n", check=0)
        cached = [int(n) for n in re.findall(r"\((\d+) cached\)", result.stderr)]
        self.assertEqual(0, cached[0])
        self.assertGreater(cached[1], 10)

    def test_commands_answer_on_standard_error(self):
        result = colibri("chat", stdin="/help\n/nonsense\n/system You are a helpful assistant.\n/exit\n6x7=\n", check=0)
        self.assertEqual("", result.stdout)
        for word in ("/reset", "/system", "/nonsense", "starts anew"):
            self.assertIn(word, result.stderr)

    def test_a_last_line_without_its_end_counts(self):
        self.assertIn("42", colibri("chat", stdin="What is 6x7?", check=0).stdout)

    def test_a_message_that_does_not_fit_fails_and_the_conversation_goes_on(self):
        result = colibri("chat", "--ctx", 128, stdin="word " * 300 + "\nWhat is 6x7?\n", check=1)
        self.assertIn("42", result.stdout)
        self.assertIn("128", result.stderr)


class Terminal:
    """The program on a pseudo-terminal of its own."""

    def __init__(self, *arguments, environment=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(environment or {})
            os.environ["TERM"] = "xterm"
            os.execv(PROGRAM, [PROGRAM, *arguments])
        self.seen = ""

    def read_more(self, end, wanted):
        ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
        try:
            data = os.read(self.fd, 65536) if ready else b""
        except OSError:
            data = b""
        if not data:
            raise AssertionError(f"{wanted} did not come; the terminal shows {self.seen!r}")
        self.seen += data.decode("utf-8", "replace")

    def expect(self, text, seconds=120):
        """Reads until `text` has come; returns what came up to there."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            self.read_more(end, repr(text))
        before, self.seen = self.seen.split(text, 1)
        return before

    def expect_something(self, seconds=120):
        """Reads until anything but white space has come."""
        end = time.monotonic() + seconds
        while not self.seen.strip():
            self.read_more(end, "anything")

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait(self, seconds=60):
        """The exit code; what is still written is read meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready, _, _ = select.select([self.fd], [], [], 0.05)
            if ready:
                try:
                    self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"the program did not end; the terminal shows {self.seen!r}")


class ChatOnATerminal(unittest.TestCase):
    def setUp(self):
        self.state = tempfile.TemporaryDirectory()
        self.addCleanup(self.state.cleanup)
        self.environment = {"XDG_STATE_HOME": self.state.name}

    def chat(self, *arguments):
        terminal = Terminal("chat", *arguments, environment=self.environment)
        terminal.expect("/help lists commands")
        terminal.expect("> ")
        return terminal

    def test_a_question_is_answered_and_ctrl_d_ends(self):
        terminal = self.chat()
        terminal.send("What is 6x7?\n")
        terminal.expect("42")
        terminal.expect("> ")
        terminal.send("\x04")
        self.assertEqual(0, terminal.wait())

    def test_ctrl_c_stops_the_answer_and_keeps_the_session(self):
        terminal = self.chat("--ignore-eos")
        for _ in range(ATTEMPTS):
            terminal.send(STORY + "\n")
            terminal.expect(STORY)
            terminal.expect("\n")
            terminal.expect_something()
            terminal.send("\x03")
            stopped = "(stopped)" in terminal.expect("> ")
            if stopped:
                break
            terminal.send("/reset\n")
            terminal.expect("starts anew")
            terminal.expect("> ")
        self.assertTrue(stopped)
        terminal.send("/stats\n")
        terminal.expect("Speed is shown")
        terminal.send("/exit\n")
        self.assertEqual(0, terminal.wait())

    def test_ctrl_c_at_the_prompt_drops_the_line_and_keeps_the_session(self):
        terminal = self.chat()
        terminal.send("half a thou")
        terminal.expect("thou")
        terminal.send("\x03")
        terminal.expect("> ")
        terminal.send("What is 6x7?\n")
        terminal.expect("42")
        terminal.expect("> ")
        terminal.send("/exit\n")
        self.assertEqual(0, terminal.wait())

    def test_lines_are_edited_and_their_history_is_kept(self):
        terminal = self.chat()
        terminal.send("What is 6x8?\x7f\x7f7?\n")  # two deletions
        terminal.expect("42")
        terminal.expect("> ")
        terminal.send("/exit\n")
        self.assertEqual(0, terminal.wait())
        terminal = self.chat()
        terminal.send("\x1b[A\x1b[A")  # up, up: past /exit
        terminal.expect("6x7?")
        terminal.send("\n")
        terminal.expect("42")
        terminal.send("/exit\n")
        self.assertEqual(0, terminal.wait())


class ProgressOnATerminal(unittest.TestCase):
    def test_it_is_shown_there_and_wiped_before_the_result(self):
        terminal = Terminal("run", NANO, "word " * 300, "--max-tokens", "1")
        terminal.expect("reading the prompt: ")
        terminal.expect("\x1b[K")
        self.assertEqual(0, terminal.wait())


if __name__ == "__main__":
    sys.exit(unittest.main())
