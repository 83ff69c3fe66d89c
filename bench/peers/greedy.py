#!/usr/bin/env python3
"""Greedy tokens of Colibri beside those of llama.cpp on the same GGUF file and 20 prompts.

usage: build/peers/bin/python bench/peers/greedy.py MODEL.gguf [--tokens 24] [--float32] [--colibri PROGRAM]

--float32 first writes the file's exact values as float32 and compares on that file: both programs then compute in float32, and every
token must be equal. On a quantised file llama.cpp rounds the activations to int8 and Colibri does not, so tokens may part where
llama.cpp's two best logits lie closer together than that rounding: the distance is printed, and may be --gap at most.
Exit code 1 when tokens part elsewhere.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
from gguf import quants
from llama_cpp import Llama
from safetensors.numpy import load_file

PROMPTS = [
    "The capital of France is", "Once upon a time, there was a little", "Water boils at a temperature of",
    "The three primary colors are", "def fibonacci(n):\n", "The largest planet in our solar system is",
    "To make a cup of tea, first", "Photosynthesis is the process by which", "The opposite of hot is",
    "In 1969, humans first landed on", "A triangle has three", "The chemical symbol for gold is", "My favorite food is",
    "import numpy as np\n", "The Great Wall of China was built", "Shakespeare wrote", "The sun rises in the",
    "Dogs are known for being", "The quick brown fox", "Two plus two equals",
]


def write_float32(source, target):
    """The same model with every tensor as float32: exactly the values that its blocks stand for."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=field.types[1] if len(field.types) > 1 else None)
    writer.add_file_type(0)
    for tensor in reader.tensors:
        shape = tuple(reversed([int(n) for n in tensor.shape]))
        writer.add_tensor(tensor.name, quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def colibri_greedy(program, model, ids, n, folder):
    output = os.path.join(folder, "greedy.safetensors")
    subprocess.run([program, "logits", "--model", model, "--ids", " ".join(map(str, ids)), "--output", output, "--greedy", str(n)],
                   check=True)
    return load_file(output)["greedy_ids"].tolist()[len(ids):]


def llama_greedy(llama, ids, n):
    """The tokens, and for each the distance of the two best logits."""
    llama.reset()
    llama.eval(ids)
    tokens, gaps = [], []
    for _ in range(n):
        logits = llama._scores[llama.n_tokens - 1]
        best, second = np.argsort(-logits)[:2]
        tokens.append(int(best))
        gaps.append(float(logits[best] - logits[second]))
        llama.eval([tokens[-1]])
    return tokens, gaps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--gap", type=float, default=0.5)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--colibri", default="build/release/bin/colibri")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = args.model
        if args.float32:
            model = os.path.join(folder, "float32.gguf")
            write_float32(args.model, model)
        llama = Llama(model, n_ctx=512, verbose=False, logits_all=True)
        equal = parted = 0
        for prompt in PROMPTS:
            ids = llama.tokenize(prompt.encode(), add_bos=False, special=False)
            ours = colibri_greedy(args.colibri, model, ids, args.tokens, folder)
            theirs, gaps = llama_greedy(llama, ids, args.tokens)
            first = next((i for i in range(args.tokens) if ours[i] != theirs[i]), args.tokens)
            if first == args.tokens:
                equal += 1
                continue
            bad = args.float32 or gaps[first] > args.gap
            parted += bad
            print(f"{first} of {args.tokens} equal, distance there {gaps[first]:.3f}{' TOO LARGE' if bad else ''}: {prompt!r}")
        print(f"{equal} of {len(PROMPTS)} prompts equal over {args.tokens} tokens")
    sys.exit(1 if parted else 0)


if __name__ == "__main__":
    main()
