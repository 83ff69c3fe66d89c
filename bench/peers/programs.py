"""The programs that speed.py compares, and what it asks the machine."""
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class ProgramError(Exception):
    """A program that could not do what it was asked for; the text says why."""


def run_json(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise ProgramError(f"{shlex.join(command)}: exit code {result.returncode}\n{result.stderr.strip()}")
    return json.loads(result.stdout)


class Colibri:
    """A fresh process for each run: the weights are loaded outside the times."""
    name = "Colibri"

    def __init__(self, program, threads, arguments):
        self.program, self.threads, self.arguments = program, threads, arguments

    def version(self):
        result = subprocess.run([self.program, "--version"], capture_output=True, text=True)
        if result.returncode != 0:
            raise ProgramError(f"{self.program} --version: {result.stderr.strip()}")
        return result.stdout.strip()

    def measure(self, model, run):
        report = run_json([self.program, "bench", "--model", model, "--prompt", str(run.prompt), "--generate", str(run.generate),
                           "--batch", str(run.batch), "--threads", str(self.threads), "--repeat", "1", "--json", *self.arguments])
        return {"prefill_tokens_per_s": report["prefill_tokens_per_s"],
                "decode_tokens_per_s": report["decode_tokens_per_s"] if run.generate else None,
                **{key: value for key, value in report.items() if key not in ("runs", "spread", "model") and "tokens_per_s" not in key}}


class Llama:
    """llama.cpp in its own process (llama_worker.py), which lives from open() to close()."""
    name = "llama.cpp"

    def __init__(self, threads, ubatch, load):
        self.threads, self.ubatch, self.load = threads, ubatch, load
        self.process = self.log = self.model = None

    def open(self, model):
        """What the model is, as llama.cpp says it. Does nothing where it is open."""
        if self.model == model:
            return self.about
        self.close()
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "llama_worker.py")], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log)
        self.about = self.ask({"open": model, "threads": self.threads, "ubatch": self.ubatch, "load": self.load})
        self.model = model
        return self.about

    def ask(self, request):
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer = json.loads(line) if line else {"error": f"the process ended with {self.process.wait()}"}
        if "error" in answer:
            self.log.seek(0)
            raise ProgramError(f"llama.cpp: {answer['error']}\n" + "".join(self.log.readlines()[-5:]))
        return answer

    def measure(self, run, flash, prefill_wanted):
        answer = self.ask({"prompt": run.prompt, "generate": run.generate, "batch": run.batch, "flash": flash,
                           "prefill_wanted": prefill_wanted})
        prefill_s, decode_s = answer["prefill_s"], answer["decode_s"]
        return {"prefill_tokens_per_s": run.prompt * run.batch / prefill_s if prefill_s else None,
                "decode_tokens_per_s": run.generate * run.batch / decode_s if run.generate else None}

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.log.close()
        self.process = self.log = self.model = None


class Probe:
    """What the machine can do right now."""

    def __init__(self, program, threads):
        self.program, self.threads = program, threads

    def measure(self):
        return {**run_json([self.program, "--threads", str(self.threads)]), "load_average": round(os.getloadavg()[0], 2)}


def memory_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemTotal"))


def machine():
    """The CPU by name, family and model: virtual machines often show no more than "AMD EPYC"."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        fields = dict(part for part in ((s.strip() for s in line.split(":", 1)) for line in file if ":" in line))
    extensions = [flag for flag in ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
                  if flag in fields.get("flags", "").split()]
    name = f"{fields.get('model name', platform.machine())} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"
    return {"cpu": name, "extensions": extensions, "cpus": os.cpu_count(), "memory_bytes": memory_bytes(), "kernel": platform.release()}


def commit():
    """This tree's commit, with "+" where sources differ from it."""
    def git(*arguments):
        return subprocess.run(["git", "-C", HERE, *arguments], capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
