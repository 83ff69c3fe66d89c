#!/usr/bin/env python3
"""Prefill and decode speed of Colibri beside llama.cpp's on one GGUF file, interleaved, medians.

usage: build/peers/bin/python bench/peers/speed.py MODEL.gguf [--prompt 512] [--generate 64] [--repeat 5] [--threads 2] [--colibri PROGRAM]
"""
import argparse
import json
import statistics
import subprocess
import time

from llama_cpp import Llama


def llama_run(llama, n_prompt, n_generate):
    ids = [(i * 7919 + 13) % llama.n_vocab() for i in range(n_prompt)]
    llama.reset()
    begin = time.perf_counter()
    llama.eval(ids)
    middle = time.perf_counter()
    for i in range(n_generate):
        llama.eval([ids[i % n_prompt]])
    end = time.perf_counter()
    return n_prompt / (middle - begin), n_generate / (end - middle)


def colibri_run(program, model, args):
    out = subprocess.run([program, "bench", "--model", model, "--prompt", str(args.prompt), "--generate", str(args.generate), "--threads",
                          str(args.threads), "--repeat", "1", "--json"], check=True, capture_output=True, text=True).stdout
    result = json.loads(out)
    return result["prefill_tokens_per_s"], result["decode_tokens_per_s"]


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--colibri", default="build/release/bin/colibri")
    args = parser.parse_args()
    llama = Llama(args.model, n_ctx=args.prompt + args.generate, n_batch=512, n_threads=args.threads, n_threads_batch=args.threads,
                  verbose=False)
    llama_run(llama, args.prompt, args.generate)
    runs = [(colibri_run(args.colibri, args.model, args), llama_run(llama, args.prompt, args.generate)) for _ in range(args.repeat)]
    print(f"{cpu_name()}, {args.threads} threads, prompt {args.prompt}, generate {args.generate}, medians of {args.repeat}")
    for index, what in enumerate(("prefill", "decode")):
        ours = statistics.median(run[0][index] for run in runs)
        theirs = statistics.median(run[1][index] for run in runs)
        print(f"{what}: Colibri {ours:.1f} tokens/s, llama.cpp {theirs:.1f} tokens/s, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
