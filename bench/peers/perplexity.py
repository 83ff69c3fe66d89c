#!/usr/bin/env python3
"""Perplexity and KL divergence of Colibri beside llama.cpp's, on the same GGUF files and the same text.

usage: build/peers/bin/python bench/peers/perplexity.py REFERENCE.gguf TEXT [--types Q8_0,Q4_K_M] [--models A.gguf B.gguf]
           [--context 512] [--stride N] [--chunks N] [--threads 2] [--folder KEEP] [--json FILE] [--colibri PROGRAM]

The files are made from the reference by llama_model_quantize (--types, those of ../shared/models/nano/quantised.md by default), or named
(--models). llama.cpp's figures follow the procedure of its perplexity tool step by step, its 16-bit store of the reference included, on the
library of llama-cpp-python; both divergences are against the same reference file, each program's against its own run of it.
With --stride perplexities alone are compared. Exit code 1 when a perplexity differs by more than --tolerance (0.5 %).
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np

TYPES = {
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "Q6_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
    "Q5_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_K_M, "Q5_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_1,
    "Q5_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_0, "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    "Q4_1": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_1, "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "IQ4_NL": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_NL, "IQ4_XS": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ4_XS,
    "MXFP4": llama_cpp.LLAMA_FTYPE_MOSTLY_MXFP4_MOE,
    "Q3_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q3_K_M, "Q2_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q2_K,
}
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}


def quantise(source, target, name, threads):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = TYPES[name]
    params.nthread = threads
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)) != 0:
        sys.exit(f"llama.cpp cannot make {target}")


class Llama:
    """One model of llama.cpp, with a context of one window."""

    def __init__(self, path, args):
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_params)
        if not self.model:
            sys.exit(f"llama.cpp cannot load {path}")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(self.vocab)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = args.context
        params.n_threads = params.n_threads_batch = args.threads
        params.flash_attn_type = FLASH_ATTENTION[args.flash_attention]
        params.no_perf = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.batch = llama_cpp.llama_batch_init(args.context, 0, 1)

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def bos(self):
        return llama_cpp.llama_vocab_bos(self.vocab) if llama_cpp.llama_vocab_get_add_bos(self.vocab) else None

    def tokenize(self, text):
        ids = (llama_cpp.llama_token * (len(text) + 8))()
        n = llama_cpp.llama_tokenize(self.vocab, text, len(text), ids, len(ids), True, False)
        return np.array(ids[:n], dtype=np.int64)

    def logits(self, window, first):
        """Of the window's positions from `first` on, from an empty cache: [n, n_vocab]."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        self.batch.n_tokens = len(window)
        for i, token in enumerate(window):
            self.batch.token[i] = int(token)
            self.batch.pos[i] = i
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = 0
            self.batch.logits[i] = i >= first
        if llama_cpp.llama_decode(self.context, self.batch) != 0:
            sys.exit("llama.cpp failed to decode")
        values = llama_cpp.llama_get_logits_ith(self.context, first)
        return np.ctypeslib.as_array(values, shape=(len(window) - first, self.n_vocab)).copy()


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def store_16_bits(logits):
    """Log-probabilities as the tool keeps those of a reference: 65535 steps over at most the upper 16 of the logits."""
    largest = logits.max(axis=1, keepdims=True)
    smallest = np.maximum(logits.min(axis=1, keepdims=True), largest - np.float32(16))
    log_sum = np.log(np.exp(logits - largest).sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
    scale = (largest - smallest) / np.float32(65535)
    steps = np.where(logits > smallest, np.rint((logits - smallest) / scale), 0)
    return scale * steps.astype(np.float32) + (smallest - largest - log_sum)


def mean_and_error(values):
    values = np.asarray(values)
    return float(values.mean()), float(np.sqrt(values.var() / (len(values) - 1)))


def windows(ids, args, bos):
    """(window, first): as the tool cuts a text, with and without --ppl-stride."""
    step = args.stride or args.context
    n = (len(ids) - args.context) // step + 1
    for i in range(min(n, args.chunks or n)):
        window = ids[i * step:i * step + args.context].copy()
        if bos is not None and not args.stride:
            window[0] = bos
        yield window, args.context - args.stride - 1 if args.stride else args.context // 2


def reference_log_probabilities(path, text, args, file):
    """Of the scored positions of every window, as the tool stores them: [n_windows, n_scored, n_vocab], in a file."""
    llama = Llama(path, args)
    all_windows = list(windows(llama.tokenize(text), args, llama.bos()))
    n_scored = args.context - 1 - all_windows[0][1]
    out = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(len(all_windows), n_scored, llama.n_vocab))
    for i, (window, first) in enumerate(all_windows):
        out[i] = store_16_bits(llama.logits(window, first)[:-1])
    llama.close()
    return out


def llama_figures(path, references, text, args):
    """What llama.cpp's tool prints for the file, with the stored log-probabilities of the reference or without."""
    model = Llama(path, args)
    nll, divergence, same_top, difference = [], [], [], []
    ids = model.tokenize(text)
    for i, (window, first) in enumerate(windows(ids, args, model.bos())):
        log_p = log_softmax(model.logits(window, first)[:-1])
        rows, following = np.arange(len(log_p)), window[first + 1:]
        nll.append(-log_p[rows, following])
        if references is None:
            continue
        base = references[i].astype(np.float64)
        divergence.append(np.where(base > -16, np.exp(base) * (base - log_p), 0).sum(axis=1))
        same_top.append(base.argmax(axis=1) == log_p.argmax(axis=1))
        difference.append(np.exp(log_p[rows, following]) - np.exp(base[rows, following]))
    model.close()
    mean, error = mean_and_error(np.concatenate(nll))
    figures = {"tokens": len(ids), "scored": len(np.concatenate(nll)), "perplexity": float(np.exp(mean)),
               "perplexity_error": float(np.exp(mean)) * error}
    if references is not None:
        figures["kld"], figures["kld_error"] = mean_and_error(np.concatenate(divergence))
        figures["kld_99"] = float(np.quantile(np.concatenate(divergence), 0.99))
        figures["same_top"] = float(np.concatenate(same_top).mean())
        figures["difference_rms"] = float(np.sqrt((np.concatenate(difference) ** 2).mean()))
    return figures


def colibri_figures(path, reference_path, text_path, args):
    command = [args.colibri, "perplexity" if args.stride else "kld", "--model", path, "--text", text_path, "--json",
               "--context", str(args.context), "--threads", str(args.threads)]
    command += ["--stride", str(args.stride)] if args.stride else ["--reference", reference_path]
    command += ["--chunks", str(args.chunks)] if args.chunks else []
    command += args.colibri_options.split()
    out = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    figures = {"tokens": out["text_tokens"], "scored": out["scored_tokens"], "perplexity": out["perplexity"]["value"],
               "perplexity_error": out["perplexity"]["standard_error"]}
    if not args.stride:
        figures["kld"], figures["kld_error"] = out["kld"]["value"], out["kld"]["standard_error"]
        figures["kld_99"] = out["kld"]["quantile_99"]
        figures["same_top"] = out["same_top"]["value"]
        figures["difference_rms"] = out["probability_difference_rms"]["value"]
    return figures


def row(name, size, ours, theirs):
    cells = [name, str(size), f"{ours['perplexity']:.6f} / {theirs['perplexity']:.6f}",
             f"{100 * (ours['perplexity'] / theirs['perplexity'] - 1):+.3f} %"]
    if "kld" in ours:
        cells += [f"{ours['kld']:.6f} / {theirs['kld']:.6f}", f"{100 * ours['same_top']:.3f} / {100 * theirs['same_top']:.3f} %"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("reference")
    parser.add_argument("text")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--models", nargs="+", default=[])
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--stride", type=int, default=0)
    parser.add_argument("--chunks", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--flash-attention", choices=FLASH_ATTENTION, default="auto")
    parser.add_argument("--tolerance", type=float, default=0.005)
    parser.add_argument("--folder", help="where the quantised files are made and kept")
    parser.add_argument("--json", help="where the figures are written")
    parser.add_argument("--colibri", default="build/release/bin/colibri")
    parser.add_argument("--colibri-options", default="", help="further options of Colibri, as one word")
    args = parser.parse_args()
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    with open(args.text, "rb") as file:
        text = file.read()
    figures, worst = {}, 0.0
    print("Each pair: Colibri / llama.cpp\n\n| file | bytes | perplexity | differs by |"
          + ("" if args.stride else " mean KLD | same top-1 |") + "\n|---|---|---|---|" + ("" if args.stride else "---|---|"), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        files = [(os.path.basename(path), path) for path in args.models]
        for name in [] if args.models else args.types.split(","):
            files.append((name, os.path.join(args.folder or scratch, f"{name.lower()}.gguf")))
            if not os.path.exists(files[-1][1]):
                quantise(args.reference, files[-1][1], name, args.threads)
        references = None
        if not args.stride:
            references = reference_log_probabilities(args.reference, text, args, os.path.join(scratch, "reference.npy"))
        for name, path in files:
            theirs = llama_figures(path, references, text, args)
            ours = colibri_figures(path, args.reference, args.text, args)
            if (ours["tokens"], ours["scored"]) != (theirs["tokens"], theirs["scored"]):
                sys.exit(f"{name}: tokens differ: {ours} {theirs}")
            figures[name] = {"bytes": os.path.getsize(path), "colibri": ours, "llama.cpp": theirs}
            worst = max(worst, abs(ours["perplexity"] / theirs["perplexity"] - 1))
            print(row(name, figures[name]["bytes"], ours, theirs), flush=True)
    print(f"\nperplexities differ by at most {100 * worst:.3f} %")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)
    sys.exit(1 if worst > args.tolerance else 0)


if __name__ == "__main__":
    main()
