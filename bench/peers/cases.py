"""What speed.py measures: cases, and the runs that show them."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """One measurement of one program: every sequence gets `prompt` tokens, then all generate together, a token each a step."""
    prompt: int
    generate: int
    batch: int = 1

    def label(self):
        batch = f", {self.batch} sequences" if self.batch > 1 else ""
        return f"prompt {self.prompt}, generate {self.generate}{batch}"


@dataclass(frozen=True)
class Case:
    """A row of the table: the prefill or the decode speed of a run."""
    name: str
    figure: str  # "prefill" or "decode"
    run: Run


PREFILL = (128, 512, 2048)
CONTEXTS = (0, 2048, 8192)
BATCHES = (1, 4, 8, 16, 32)
KINDS = ("prefill", "decode", "batch")
QUICK = ("prefill 128", "prefill 512", "decode at 0", "batch 8")


def all_cases(generate):
    """Every case of the table. A context of 0 is a prompt of one token, and decoding behind a prompt shares its prefill's run."""
    decode_after = {n: generate for n in CONTEXTS if n in PREFILL}
    cases = [Case(f"prefill {n}", "prefill", Run(n, decode_after.get(n, 0))) for n in PREFILL]
    cases += [Case(f"decode at {n}", "decode", Run(max(n, 1), generate)) for n in CONTEXTS]
    cases += [Case(f"batch {n}", "decode", Run(1, generate, n)) for n in BATCHES]
    return cases


def chosen_cases(generate, names):
    """The cases that `names` begin: "prefill" is all of them, "prefill 512" one. ValueError for a name that begins none."""
    cases = all_cases(generate)
    chosen = []
    for name in names:
        found = [case for case in cases if case.name == name] or [case for case in cases if case.name.split()[0] == name]
        if not found:
            raise ValueError(f"no case is named {name!r}; there are: {', '.join(case.name for case in cases)}")
        chosen += [case for case in found if case not in chosen]
    return chosen


def runs_of(cases):
    """The runs, each once, and for each whether its prefill is a figure that somebody wants."""
    runs = {}
    for case in cases:
        runs[case.run] = runs.get(case.run, False) or case.figure == "prefill"
    return runs
