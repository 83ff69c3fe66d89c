#!/usr/bin/env python3
"""What the runs of speed.py come to: medians, ratios, shares of the machine, and the README's table.

usage: bench/peers/report.py RESULT.json [...]     prints the table of all files that the results hold, each once
       bench/peers/report.py --self-test

A result is {"machine": ..., "settings": ..., "versions": ..., "files": [{"label", "bytes", "vocab_size", "hidden", "runs": [...]}]}; a run
is {"run": {"prompt", "generate", "batch"}, "repeat": N, "ours": {...}, "theirs": {"flash": {...}, "no flash": {...}},
"probe_ours": {...}, "probe_theirs": {...}}.
"""
import json
import statistics
import sys
import unittest

from cases import KINDS, Run, all_cases, chosen_cases

TABLE_HEAD = ["| file | case | Colibri, tokens/s | llama.cpp, tokens/s | ratio | of read bandwidth (llama.cpp) | of int8 peak "
              "| of bf16 peak |", "|---|---|---|---|---|---|---|---|"]
FIGURE = {"prefill": "prefill_tokens_per_s", "decode": "decode_tokens_per_s"}


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def bytes_per_s(case, tokens_per_s, ours):
    """Weights read in a second. None but for decoding one sequence: what several read depends on how many experts they share."""
    return tokens_per_s * ours["bytes_per_token"] if case.figure == "decode" and case.run.batch == 1 else None


def ops_per_s(case, tokens_per_s, ours, file):
    """Operations with weights in a second, two for a multiplication and an addition. A prefill takes the logits of its last token
    alone, so the output matrix does not count; nor do scores of attention."""
    if case.figure != "prefill":
        return None
    head = 2 * file["vocab_size"] * file["hidden"]
    return tokens_per_s * (ours["flops_per_token"] - head * (1 - 1 / case.run.prompt))


def share(value, peak):
    return value / peak if value is not None and peak else None


def summarize(case, file):
    """The case's figures over its repeats; None where it was not measured."""
    runs = [run for run in file["runs"] if Run(**run["run"]) == case.run]
    figure = FIGURE[case.figure]
    runs = [run for run in runs if run["ours"].get(figure) and all(theirs.get(figure) for theirs in run["theirs"].values())]
    if not runs:
        return None
    ours = [run["ours"][figure] for run in runs]
    row = {"case": case.name, "repeats": len(runs), "ours": median(ours), "ours_min": min(ours), "ours_max": max(ours)}
    for program in ("ours", "theirs"):
        row[f"{program}_read_bytes_per_s"] = median(run[f"probe_{program}"]["read_bytes_per_s"] for run in runs)
    row["of_read"] = median(share(bytes_per_s(case, value, run["ours"]), run["probe_ours"]["read_bytes_per_s"])
                            for value, run in zip(ours, runs))
    for kind in ("int8", "bf16"):
        row[f"of_{kind}"] = median(share(ops_per_s(case, value, run["ours"], file), run["probe_ours"][f"{kind}_ops_per_s"])
                                   for value, run in zip(ours, runs))
    # Each setting's own median, then the better one: llama.cpp is held to what it does best.
    settings = {name: median(run["theirs"][name][figure] for run in runs) for name in runs[0]["theirs"]}
    if settings:
        row["setting"] = max(settings, key=settings.get)
        theirs = [run["theirs"][row["setting"]][figure] for run in runs]
        row.update(theirs=median(theirs), theirs_min=min(theirs), theirs_max=max(theirs), theirs_by_setting=settings)
        row["theirs_of_read"] = median(share(bytes_per_s(case, value, run["ours"]), run["probe_theirs"]["read_bytes_per_s"])
                                       for value, run in zip(theirs, runs))
        row["ratio"] = row["ours"] / row["theirs"]
    return row


def rows_of(file, generate):
    rows = [summarize(case, file) for case in all_cases(generate)]
    return [row for row in rows if row]


def number(value):
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def percent(value):
    return "" if value is None else f"{100 * value:.0f} %"


def merged(results):
    """One result for all that measured the same programs in the same way on the same machine, with each file once: the cases of a
    table may take hours, and need not be measured at one go."""
    out = {}
    for result in results:
        key = json.dumps([result["machine"], result["settings"], result["versions"]], sort_keys=True)
        files = out.setdefault(key, {**result, "files": []})["files"]
        for file in result["files"]:
            same = next((other for other in files if other["label"] == file["label"]), None)
            if same:
                same["runs"] += file["runs"]
            else:
                files.append({**file, "runs": list(file["runs"])})
    return list(out.values())


def markdown(results):
    """The table, one row a case, and above it what it was measured with. Results of several machines are told apart."""
    lines = []
    for result in merged(results):
        settings, versions = result["settings"], result["versions"]
        header = (f"{result['machine']['cpu']}, {settings['threads']} threads; Colibri {versions['commit']}, llama-cpp-python "
                  f"{versions['llama']} built for this CPU; medians of {settings['repeat']}, interleaved.")
        if header not in lines:
            lines += [""] * bool(lines) + [header, ""] + TABLE_HEAD
        for file in result["files"]:
            for row in rows_of(file, settings["generate"]):
                theirs = f"{number(row['theirs'])} ({row['setting']})" if "theirs" in row else ""
                read = percent(row["of_read"]) + (f" ({percent(row['theirs_of_read'])})" if row.get("theirs_of_read") else "")
                ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
                lines.append(f"| {file['label']} | {row['case']} | {number(row['ours'])} | {theirs} | {ratio} | {read} | "
                             f"{percent(row['of_int8'])} | {percent(row['of_bf16'])} |")
    return "\n".join(lines) + "\n"


class SelfTest(unittest.TestCase):
    """Made-up runs whose figures can be worked out by hand."""

    def file(self):
        def run(prompt, generate, repeat, ours, flash, plain, read):
            probe = {"read_bytes_per_s": read, "int8_ops_per_s": 1000.0, "bf16_ops_per_s": None}
            both = [{"prefill_tokens_per_s": rate, "decode_tokens_per_s": rate if generate else None} for rate in (ours, flash, plain)]
            return {"run": {"prompt": prompt, "generate": generate, "batch": 1}, "repeat": repeat,
                    "ours": {**both[0], "bytes_per_token": 10, "flops_per_token": 30},
                    "theirs": {"flash": both[1], "no flash": both[2]}, "probe_ours": probe, "probe_theirs": probe}
        return {"label": "made up", "bytes": 1, "vocab_size": 5, "hidden": 2, "runs": [
            run(1, 64, 0, 40, 10, 20, 500), run(1, 64, 1, 60, 50, 25, 1000), run(1, 64, 2, 50, 12, 30, 1000),
            run(512, 0, 0, 20, 10, 5, 500)]}

    def row(self, name):
        return next(row for row in rows_of(self.file(), 64) if row["case"] == name)

    def test_medians_are_taken_over_repeats_and_the_better_setting_counts(self):
        row = self.row("decode at 0")
        self.assertEqual((row["ours"], row["theirs"], row["setting"], row["ratio"]), (50, 25, "no flash", 2))
        self.assertEqual(row["theirs_by_setting"], {"flash": 12, "no flash": 25})

    def test_a_share_of_bandwidth_belongs_to_the_probe_beside_the_run(self):
        self.assertEqual(self.row("decode at 0")["of_read"], 0.6)  # of 0.8, 0.6 and 0.5

    def test_a_prefill_counts_the_output_matrix_once(self):
        row = self.row("prefill 512")
        self.assertAlmostEqual(row["of_int8"], 20 * (30 - 20 + 20 / 512) / 1000)
        self.assertIsNone(row["of_bf16"])
        self.assertIsNone(row["of_read"])

    def test_a_run_serves_every_case_that_it_shows(self):
        self.assertEqual([row["case"] for row in rows_of(self.file(), 64)], ["prefill 512", "decode at 0", "batch 1"])

    def test_a_first_word_names_all_cases_that_begin_with_it(self):
        self.assertEqual(sorted(chosen_cases(64, KINDS), key=str), sorted(all_cases(64), key=str))
        self.assertEqual([case.name for case in chosen_cases(64, ["batch 4", "prefill"])],
                         ["batch 4", "prefill 128", "prefill 512", "prefill 2048"])
        with self.assertRaises(ValueError):
            chosen_cases(64, ["decode at 3"])

    def test_the_table_has_a_line_for_each_case(self):
        result = {"machine": {"cpu": "a CPU"}, "settings": {"threads": 2, "repeat": 3, "generate": 64},
                  "versions": {"commit": "abc", "llama": "1.0"}, "files": [self.file()]}
        text = markdown([result])
        self.assertIn("| made up | decode at 0 | 50.0 | 25.0 (no flash) | 2.00 | 60 % (30 %) |  |  |", text)
        self.assertEqual(text.count("\n"), 4 + 3)
        self.assertEqual(markdown([result, result]).count("a CPU"), 1)

    def test_the_cases_of_a_file_may_come_from_several_results(self):
        def result(runs, threads=2):
            return {"machine": {"cpu": "a CPU"}, "settings": {"threads": threads, "repeat": 3, "generate": 64},
                    "versions": {"commit": "abc", "llama": "1.0"}, "files": [{**self.file(), "runs": runs}]}
        runs = self.file()["runs"]
        whole, first, second = result(runs), result(runs[:3]), result(runs[3:])
        self.assertEqual(markdown([second, first]), markdown([whole]))
        self.assertEqual(len(first["files"][0]["runs"]), 3)  # as it was
        self.assertEqual(markdown([first, result(runs[3:], threads=4)]).count("a CPU"), 2)


def main():
    if sys.argv[1:] == ["--self-test"]:
        unittest.main(argv=sys.argv[:1])
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    results = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            results.append(json.load(file))
    print(markdown(results), end="")


if __name__ == "__main__":
    main()
