#!/usr/bin/env python3
"""Makes tiny random checkpoints with reference results of transformers, one folder a case.

    make_goldens.py OUT [--only PREFIX]

Each folder has the layout of the goldens that the tests read: config.json as hubs hold it, config.v5.json as transformers 5
writes it, model*.safetensors under the hub's tensor names, and expected.safetensors with input_ids [n], logits [n, vocab],
greedy_ids [n + 16] and layer_hidden [layers + 1, n, hidden], computed in float32 on the stored weights. The cases stand in
golden_cases.py. Needs torch and transformers 5; neither the build nor the tests do.
"""
import argparse
import json
import pathlib
import re
import tempfile
import zlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from golden_cases import ABSENT, CASES, FAMILIES

N_GREEDY = 16
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# What hubs keep in float32 beside 16-bit weights.
ALWAYS_FLOAT = re.compile(r"e_score_correction_bias$")


def hub_config(family, changes):
    """The family's base configuration with a case's changes, in the hubs' spelling."""
    config = {**FAMILIES[family], **changes}
    return {key: value for key, value in config.items() if value is not ABSENT}


def randomize(model, dtype, generator, bias_scale):
    """Random values for everything, so that nothing is at the value that it would have when it was ignored."""
    for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
        if "inv_freq" in name:
            continue
        noise = torch.randn(tensor.shape, generator=generator)
        if "e_score_correction_bias" in name:
            value = bias_scale * noise.abs() + bias_scale
        elif "norm" in name and name.endswith("weight"):
            value = 1 + 0.3 * noise
        elif "bias" in name:
            value = 0.3 * noise
        elif "sinks" in name:
            value = 2 * noise
        elif "embed_tokens" in name:
            value = noise
        elif re.search(r"(gate|router|router\.layer|gate\.wg)\.weight$", name) and "proj" not in name:
            value = noise * 2 / tensor.shape[-1] ** 0.5
        else:
            # Inputs lie in the last dimension, but for gpt-oss's transposed experts.
            transposed = model.config.model_type == "gpt_oss" and "experts" in name
            value = noise / tensor.shape[-2 if transposed else -1] ** 0.5
        stored = torch.float32 if ALWAYS_FLOAT.search(name) else dtype
        tensor.data.copy_(value.to(stored).float())


def hub_tensors(model, dtype):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tensors = {}
        for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
            tensors.update(load_file(path))
    return {
        name: (tensor if ALWAYS_FLOAT.search(name) else tensor.to(dtype)).contiguous()
        for name, tensor in tensors.items()
    }


def save_weights(tensors, folder, n_shards):
    if n_shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    names = sorted(tensors)
    for shard in range(n_shards):
        file = f"model-{shard + 1:05}-of-{n_shards:05}.safetensors"
        part = names[shard::n_shards]
        save_file({name: tensors[name] for name in part}, folder / file, metadata={"format": "pt"})
        weight_map.update({name: file for name in part})
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


@torch.no_grad()
def expected(model, n_tokens, generator):
    ids = torch.randint(5, model.config.vocab_size, (1, n_tokens), generator=generator)
    out = model(input_ids=ids, output_hidden_states=True, use_cache=False)
    greedy = ids
    for _ in range(N_GREEDY):
        last = model(input_ids=greedy, use_cache=False).logits[0, -1]
        greedy = torch.cat([greedy, last.argmax().reshape(1, 1)], dim=1)
    return {
        "input_ids": ids[0].contiguous(),
        "logits": out.logits[0].float().contiguous(),
        "greedy_ids": greedy[0].contiguous(),
        "layer_hidden": torch.stack([state[0] for state in out.hidden_states]).float().contiguous(),
    }


def make_case(name, case, out):
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    config_json = hub_config(case["family"], case.get("config", {}))
    (folder / "config.json").write_text(json.dumps(config_json, indent=1))
    config = AutoConfig.from_pretrained(folder)
    generator = torch.Generator().manual_seed(case.get("seed", zlib.crc32(name.encode())))
    dtype = DTYPES[case.get("dtype", "f32")]
    # The plain loops of both: other implementations ask for sizes that suit them.
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, **eager).eval()
    randomize(model, dtype, generator, case.get("bias_scale", 0.2))
    save_weights(hub_tensors(model, dtype), folder, case.get("shards", 1))
    v5 = config.to_dict()
    v5["architectures"] = config_json.get("architectures") or [type(model).__name__]
    (folder / "config.v5.json").write_text(json.dumps(v5, indent=1, default=str))
    save_file(expected(model, case.get("tokens", 24), generator), folder / "expected.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose names begin so")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, case in CASES.items():
        if not name.startswith(arguments.only):
            continue
        try:
            make_case(name, case, arguments.out)
            print("made", name, flush=True)
        except Exception as error:  # transformers itself refuses some configurations: say so and go on
            print("refused", name, type(error).__name__, str(error).splitlines()[0] if str(error) else "", flush=True)


if __name__ == "__main__":
    main()
