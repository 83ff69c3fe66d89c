#!/usr/bin/env python3
"""Routing and one layer's experts in PyTorch on the CPU: the baseline for the same steps of Colibri.

usage: build/peers/bin/python bench/peers/torch_moe.py [--shape olmoe|qwen30|gpt-oss] [--type bf16|f32] [--threads N] [--repeat 5] [--json]

Needs bench/peers/setup.sh --torch. Two ways of a layer are timed and the better one counts: a loop over the experts that have tokens
(index, two products, SiLU, product, index_add: how `transformers` computes it) and torch's grouped product where this version has one
for the CPU. "routing" is what stands between logits and products: softmax, top-k, renormalisation, and tokens sorted by expert.
Weights of several layers are used in turn, more than the caches hold. Medians.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F

SHAPES = {  # hidden, experts, experts a token, intermediate
    "olmoe": (2048, 64, 8, 1024),
    "qwen30": (2048, 128, 8, 768),
    "gpt-oss": (2880, 32, 4, 2880),
}
TOKENS = (1, 8, 32, 128, 512)
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
WEIGHT_BYTES = 1 << 30  # of the layers that are used in turn


def route(logits, n_used):
    """(weights, experts): [n_tokens, n_used]; (order, counts): slots sorted by expert, and how many each expert has."""
    weights, experts = torch.topk(torch.softmax(logits, dim=-1), n_used, dim=-1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    flat = experts.flatten()
    return weights, experts, torch.argsort(flat), torch.bincount(flat, minlength=logits.shape[-1])


def loop_layer(layer, hidden, n_used):
    router, gate_up, down = layer
    weights, _, order, counts = route(F.linear(hidden.float(), router), n_used)
    tokens = order // n_used
    weights = weights.flatten()[order].to(hidden.dtype)
    out = torch.zeros_like(hidden)
    begin = 0
    for expert, n in enumerate(counts.tolist()):
        if n == 0:
            continue
        mine = tokens[begin:begin + n]
        gate, up = F.linear(hidden[mine], gate_up[expert]).chunk(2, dim=-1)
        result = F.linear(F.silu(gate) * up, down[expert])
        out.index_add_(0, mine, result * weights[begin:begin + n, None])
        begin += n
    return out


def grouped_layer(layer, hidden, n_used):
    router, gate_up, down = layer
    weights, _, order, counts = route(F.linear(hidden.float(), router), n_used)
    tokens = order // n_used
    ends = counts.cumsum(0).to(torch.int32)
    gate, up = grouped_product(hidden[tokens], gate_up, ends).chunk(2, dim=-1)
    result = grouped_product(F.silu(gate) * up, down, ends)
    weights = weights.flatten()[order].to(hidden.dtype)
    return torch.zeros_like(hidden).index_add_(0, tokens, result * weights[:, None])


def grouped_product(x, w, ends):
    product = getattr(F, "grouped_mm", None) or torch._grouped_mm
    return product(x, w.transpose(-2, -1), offs=ends)


def median_seconds(work, repeat):
    """The median of `repeat` measurements of some 0.2 s each; work(i) is the i-th of a series."""
    work(0)
    begin = time.perf_counter()
    work(1)
    n = max(1, int(0.2 / max(time.perf_counter() - begin, 1e-6)))
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        for i in range(n):
            work(i)
        times.append((time.perf_counter() - begin) / n)
    return statistics.median(times)


def measure(args):
    hidden_size, n_experts, n_used, intermediate = SHAPES[args.shape]
    dtype = TYPES[args.type]
    expert_bytes = 3 * hidden_size * intermediate * dtype.itemsize
    n_layers = max(1, round(WEIGHT_BYTES / (n_experts * expert_bytes)))

    def matrix(*shape):
        return torch.randn(*shape, dtype=torch.float32).mul_(shape[-1] ** -0.5).to(dtype)

    layers = [(torch.randn(n_experts, hidden_size) * hidden_size ** -0.5, matrix(n_experts, 2 * intermediate, hidden_size),
               matrix(n_experts, hidden_size, intermediate)) for _ in range(n_layers)]
    ways = {"loop": loop_layer}
    try:
        probe = torch.randn(4, hidden_size).to(dtype)
        error = (grouped_layer(layers[0], probe, n_used) - loop_layer(layers[0], probe, n_used)).abs().max().item()
        if error < 0.1:
            ways["grouped"] = grouped_layer
    except (RuntimeError, AttributeError, TypeError, NotImplementedError):
        pass  # this version has none for the CPU, or not for this type
    rows = []
    for n_tokens in TOKENS:
        x = torch.randn(n_tokens, hidden_size).to(dtype)
        logits = [F.linear(x.float(), layer[0]) for layer in layers]
        seconds = {name: median_seconds(lambda i, way=way: way(layers[i % n_layers], x, n_used), args.repeat) for name, way in ways.items()}
        best = min(seconds, key=seconds.get)
        routing = median_seconds(lambda i: route(logits[i % n_layers], n_used), args.repeat)
        rows.append({"tokens": n_tokens, "way": best, "layer_s": seconds[best], "layer_s_by_way": seconds, "routing_s": routing,
                     "tokens_per_s": n_tokens / seconds[best],
                     "ops_per_s": 2 * n_tokens * n_used * 3 * hidden_size * intermediate / seconds[best]})
    return {"shape": args.shape, "type": args.type, "threads": args.threads, "repeat": args.repeat, "torch": torch.__version__,
            "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="qwen30")
    parser.add_argument("--type", choices=TYPES, default="bf16")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    with torch.inference_mode():
        result = measure(args)
    if args.json:
        print(json.dumps(result, indent=1))
        return
    print(f"torch {result['torch']}, {args.shape}, {args.type}, {args.threads} threads, medians of {args.repeat}\n")
    print("| tokens | layer, ms | tokens/s | GOPS | routing, us | way |\n|---|---|---|---|---|---|")
    for row in result["rows"]:
        print(f"| {row['tokens']} | {1e3 * row['layer_s']:.2f} | {row['tokens_per_s']:.0f} | {1e-9 * row['ops_per_s']:.0f} | "
              f"{1e6 * row['routing_s']:.0f} | {row['way']} |")


if __name__ == "__main__":
    main()
