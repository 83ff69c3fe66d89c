#!/usr/bin/env python3
"""Speed of Colibri beside llama.cpp's on the same GGUF files: prefill, decode, and several sequences that decode together.

usage: build/peers/bin/python bench/peers/speed.py MODEL.gguf [...] [--cases NAME,...] [--quick] [--json RESULT.json]

Runs are interleaved (ours, theirs, ours, ...) with a probe of the machine beside each, and repeated; llama.cpp runs with and without
flash attention, and the better median counts. Prints the table of report.py; RESULT.json holds every run and is written after each,
so that an interrupted measurement keeps what it has.

Cases: "prefill 128", "prefill 512", "prefill 2048", "decode at 0", "decode at 2048", "decode at 8192", "batch 1", "batch 4", "batch 8",
"batch 16", "batch 32"; a first word names all that begin with it.
"""
import argparse
import dataclasses
import datetime
import json
import os
import shlex
import sys

import cases
import report
from programs import Colibri, Llama, Probe, ProgramError, commit, machine, memory_bytes

# llama.cpp's model stays in memory beside ours where both fit with this many bytes for caches, scratch and the probe.
OTHER_BYTES = 6e9
SETTINGS = {"flash": True, "no flash": False}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    parser.add_argument("--cases", help="names, with commas between; all unless said")
    parser.add_argument("--quick", action="store_true", help="two repeats of few cases, 16 tokens each: minutes, and rough")
    parser.add_argument("--repeat", type=int, help="5 unless said")
    parser.add_argument("--generate", type=int, help="tokens that a decode is timed over; 64 unless said")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of both; the CPUs of this process unless said")
    parser.add_argument("--json", help="where the result goes")
    parser.add_argument("--colibri", default="build/release/bin/colibri")
    parser.add_argument("--colibri-arguments", default="", help="more of them for colibri bench, as one word")
    parser.add_argument("--probe", default="build/peers/bin/machine_probe")
    parser.add_argument("--ubatch", type=int, default=512, help="llama.cpp's tokens a step; its default is 512")
    parser.add_argument("--llama-load", choices=("auto", "none", "mmap"), default="auto", help="how llama.cpp holds the file")
    args = parser.parse_args()
    args.repeat = args.repeat or (2 if args.quick else 5)
    args.generate = args.generate or (16 if args.quick else 64)
    names = cases.QUICK if args.quick else cases.KINDS
    if args.cases:
        names = [name.strip() for name in args.cases.split(",")]
    if min(args.repeat, args.generate, args.threads, args.ubatch) < 1:
        parser.error("counts must be at least 1")
    try:
        args.chosen = cases.chosen_cases(args.generate, names)
    except ValueError as error:
        parser.error(str(error))
    for path in args.models + [args.colibri, args.probe]:
        if not os.path.exists(path):
            parser.error(f"there is no {path}")
    return args


def write_json(path, result):
    partial = path + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    os.replace(partial, path)


class Measurement:
    def __init__(self, args):
        self.args = args
        self.colibri = Colibri(args.colibri, args.threads, shlex.split(args.colibri_arguments))
        self.llama = Llama(args.threads, args.ubatch, args.llama_load)
        self.probe = Probe(args.probe, args.threads)
        self.result = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": machine(),
            "settings": {"threads": args.threads, "repeat": args.repeat, "generate": args.generate, "ubatch": args.ubatch,
                         "llama_load": args.llama_load, "colibri_arguments": args.colibri_arguments},
            "versions": {"commit": commit(), "colibri": self.colibri.version(), "llama": None, "llama_system": None},
            "files": [],
        }

    def save(self):
        if self.args.json:
            write_json(self.args.json, self.result)

    def measure_file(self, path):
        keep = 2 * os.path.getsize(path) + OTHER_BYTES < memory_bytes()
        about = self.llama.open(path)
        self.result["versions"].update(llama=about["version"], llama_system=about["system"])
        label = os.path.basename(path).removesuffix(".gguf")
        file = {"label": label, "bytes": os.path.getsize(path), "parameters": about["parameters"], "vocab_size": about["vocab_size"],
                "hidden": about["hidden"], "runs": [], "errors": []}
        self.result["files"].append(file)
        for run, prefill_wanted in cases.runs_of(self.args.chosen).items():
            try:
                for repeat in range(self.args.repeat):
                    if not keep:
                        self.llama.close()
                    entry = self.measure_run(path, run, prefill_wanted, repeat)
                    file["runs"].append(entry)
                    self.save()
                    print(self.progress(label, run, entry), file=sys.stderr, flush=True)
            except ProgramError as error:  # the other runs are worth having
                self.llama.close()
                file["errors"].append({"run": dataclasses.asdict(run), "error": str(error)})
                print(f"{label}, {run.label()}: {error}", file=sys.stderr, flush=True)
        file["cases"] = report.rows_of(file, self.args.generate)
        self.save()
        self.llama.close()
        return not file["errors"]

    def measure_run(self, path, run, prefill_wanted, repeat):
        entry = {"run": dataclasses.asdict(run), "repeat": repeat, "probe_ours": self.probe.measure()}
        entry["ours"] = self.colibri.measure(path, run)
        self.llama.open(path)
        entry["probe_theirs"] = self.probe.measure()
        entry["theirs"] = {name: self.llama.measure(run, flash, prefill_wanted) for name, flash in SETTINGS.items()}
        return entry

    def progress(self, label, run, entry):
        def figures(name, measured):
            prefill, decode = measured["prefill_tokens_per_s"], measured["decode_tokens_per_s"]
            return f"{name} {report.number(prefill)}/{report.number(decode)}"
        programs = [figures("ours", entry["ours"])] + [figures(name, measured) for name, measured in entry["theirs"].items()]
        probes = [f"{entry[probe]['read_bytes_per_s'] / 1e9:.1f}" for probe in ("probe_ours", "probe_theirs")]
        return (f"{label}, {run.label()} [{entry['repeat'] + 1}/{self.args.repeat}]: {', '.join(programs)} tokens/s; "
                f"read {' '.join(probes)} GB/s, load {entry['probe_ours']['load_average']}")


def main():
    args = parse_arguments()
    try:
        measurement = Measurement(args)
        complete = [measurement.measure_file(path) for path in args.models]
    except ProgramError as error:
        sys.exit(f"speed.py: {error}")
    print(report.markdown([measurement.result]), end="")
    sys.exit(0 if all(complete) else 1)


if __name__ == "__main__":
    main()
