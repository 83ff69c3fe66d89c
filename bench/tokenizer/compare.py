#!/usr/bin/env python3
"""Encoding speed beside Hugging Face tokenizers, one thread, processor time, best of several runs.

    compare.py --bench build/release/bin/tokenizer_bench FOLDER [FOLDER ...] --text FILE [--text FILE ...]

Each folder holds a tokenizer.json. Needs the Python package "tokenizers" (bench/peers/setup.sh installs it in an environment of its own) and
    cmake --preset release && cmake --build --preset release --target tokenizer_bench
Both sides must give the same number of ids, or the run fails.
"""

import argparse
import json
import os
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def hugging_face(folder, text, runs):
    from tokenizers import Tokenizer

    begin = time.process_time()
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    load = time.process_time() - begin
    best, n_ids = float("inf"), 0
    for _ in range(runs):
        begin = time.process_time()
        encoding = tokenizer.encode(text)
        best = min(best, time.process_time() - begin)
        n_ids = len(encoding.ids)
    return load, best, n_ids


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--bench", required=True, help="the program tokenizer_bench")
    parser.add_argument("--text", action="append", required=True, help="UTF-8 text file")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    print(f"{'tokenizer':<16}{'text':<20}{'MB':>6}{'HF MB/s':>10}{'here MB/s':>11}{'times':>7}"
          f"{'HF load s':>11}{'load s':>8}")
    same = True
    for folder in args.folders:
        for path in args.text:
            with open(path, newline="", encoding="utf-8") as file:
                text = file.read()
            run = subprocess.run([args.bench, folder, path, str(args.runs)], check=True,
                                 capture_output=True, text=True)
            here = json.loads(run.stdout)
            load, seconds, n_ids = hugging_face(folder, text, args.runs)
            mb = here["bytes"] / 1e6
            same = same and n_ids == here["ids"]
            print(f"{os.path.basename(os.path.normpath(folder)):<16}{os.path.basename(path):<20}"
                  f"{mb:>6.2f}{mb / seconds:>10.2f}{mb / here['encode_s']:>11.2f}"
                  f"{seconds / here['encode_s']:>7.1f}{load:>11.2f}{here['load_s']:>8.2f}"
                  f"{'' if n_ids == here['ids'] else '  DIFFERENT IDS'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
