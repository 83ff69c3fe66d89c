#!/usr/bin/env python3
"""Writes MoE files of real sizes with random weights, for measurements of speed (needs: pip install gguf numpy).

usage: tools/make_moe.py SHAPE TYPE OUT.gguf [LAYERS]
       tools/make_moe.py --self-test

SHAPE  olmoe    the sizes of OLMoE-1B-7B (16 layers) in the qwen3moe graph
       qwen30   the sizes of Qwen3-30B-A3B, 8 of its 48 layers unless LAYERS says otherwise
       gpt-oss  the sizes and the graph of gpt-oss-20B (sinks, biases, alternate sliding windows), 8 of its 24 layers
TYPE   q4_0, q4_k, q6_k, q8_0, mxfp4, f16 or bf16. Of olmoe and qwen30 it is every matrix's; of gpt-oss the experts', whose other
       matrices are q8_0 (f16 and bf16 stay what they are), as in the released file.

Norms, routers, biases and sinks are float32. The weights' spread keeps the activations of a deep stack finite, so routing, softmax and
rounding do the work that they do in a trained model; the tokens mean nothing. The bytes depend on the arguments alone. Files are
written piece by piece, with less than 200 MB of memory.
"""
import argparse
import os
import sys
import tempfile
import unittest
import unittest.mock
from dataclasses import dataclass, replace
from typing import Optional

import gguf
import numpy as np

ALIGNMENT = 32  # bytes, GGUF's default
PIECE_BYTES = 32 << 20  # of what is written at once
POOL_BLOCKS_BYTES = 48 << 20  # random blocks of one type and spread, written again from random places
SEED = 1234


@dataclass(frozen=True)
class Shape:
    architecture: str
    n_layers: int
    hidden: int
    n_experts: int
    n_experts_used: int
    intermediate: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    norm_eps: float
    rope_theta: float
    qk_norm: bool = False
    oss: bool = False  # gpt-oss: sinks, biases, sliding windows, YaRN

    @property
    def other_type(self):
        """The type of the matrices that are no experts'; None: the experts' own."""
        return "q8_0" if self.oss else None


SHAPES = {
    "olmoe": Shape("qwen3moe", 16, 2048, 64, 8, 1024, 16, 16, 128, 50304, 1e-6, 1e6, qk_norm=True),
    "qwen30": Shape("qwen3moe", 8, 2048, 128, 8, 768, 32, 4, 128, 151936, 1e-6, 1e6, qk_norm=True),
    "gpt-oss": Shape("gpt-oss", 8, 2880, 32, 4, 2880, 64, 8, 64, 201088, 1e-5, 150000, oss=True),
}


@dataclass(frozen=True)
class BlockType:
    """How a type's random blocks are made: random bytes, then a scale in the place where the format has it."""
    code: gguf.GGMLQuantizationType
    file_type: gguf.LlamaFileType
    scales: tuple = ()  # (offset, factor) of the float16 scales; a factor of "+-" stands for 1 with either sign
    spread: float = 1  # of a block's values where every scale is its factor


# The mean must be 0, or hidden states share a large part and all tokens choose the same experts. So scales have either sign where
# the codes' own mean is not 0, as quantisers give them too, and q4_k's minima the factor that balances its codes. `--self-test`
# checks mean and spread with gguf's decoder.
BLOCK_TYPES = {
    "q4_0": BlockType(gguf.GGMLQuantizationType.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0, ((0, "+-"),), 4.66),
    "q8_0": BlockType(gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0, ((0, "+-"),), 74.7),
    "q4_k": BlockType(gguf.GGMLQuantizationType.Q4_K, gguf.LlamaFileType.MOSTLY_Q4_K_S, ((0, 1), (2, 7.5)), 265.4),
    "q6_k": BlockType(gguf.GGMLQuantizationType.Q6_K, gguf.LlamaFileType.MOSTLY_Q6_K, ((208, "+-"),), 1381),
    "mxfp4": BlockType(gguf.GGMLQuantizationType.MXFP4, gguf.LlamaFileType.MOSTLY_MXFP4_MOE),
    "f16": BlockType(gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "bf16": BlockType(gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
    "f32": BlockType(gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
}
MATRIX_TYPES = [name for name in BLOCK_TYPES if name != "f32"]
MXFP4_SPREAD = 2.926  # of its sixteen values where the exponent is 0


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple  # row-major: the last dimension is contiguous
    type_name: str
    std: Optional[float]  # None: all ones


def random_blocks(rng, type_name, std, n_blocks):
    """[n_blocks, bytes of a block] whose values spread about N(0, std)."""
    block_type = BLOCK_TYPES[type_name]
    n_values, n_bytes = gguf.GGML_QUANT_SIZES[block_type.code]
    if n_values == 1:
        values = rng.standard_normal(n_blocks, dtype=np.float32) * np.float32(std)
        if type_name == "f16":
            values = values.astype(np.float16)
        elif type_name == "bf16":
            values = (values.view(np.uint32) >> 16).astype(np.uint16)
        return values.view(np.uint8).reshape(n_blocks, n_bytes)
    blocks = rng.integers(0, 256, size=(n_blocks, n_bytes), dtype=np.uint8)
    for offset, factor in block_type.scales:
        scales = std / block_type.spread * (0.75 + 0.5 * rng.random(n_blocks, dtype=np.float32))
        scales *= rng.choice(np.float32([-1, 1]), n_blocks) if factor == "+-" else factor
        blocks[:, offset:offset + 2] = scales.astype(np.float16).view(np.uint8).reshape(n_blocks, 2)
    if type_name == "q8_0":
        codes = blocks[:, 2:]
        codes[codes == 0x80] = 0x81  # quantisers give no -128
    if type_name == "mxfp4":
        # Two neighbouring powers of two, in the proportion that gives the spread.
        exponent = float(np.floor(np.log2(std / MXFP4_SPREAD)))
        share_above = ((std / MXFP4_SPREAD / 2 ** exponent) ** 2 - 1) / 3
        blocks[:, 0] = 127 + int(exponent) + (rng.random(n_blocks) < share_above)
    return blocks


class BlockPool:
    """Random blocks by type and spread: made once, then taken from random places, as fast as they can be written."""

    def __init__(self, rng):
        self._rng = rng
        self._pools = {}

    def pieces(self, tensor):
        """The tensor's bytes, in pieces of PIECE_BYTES at most."""
        n_values, n_bytes = gguf.GGML_QUANT_SIZES[BLOCK_TYPES[tensor.type_name].code]
        left = int(np.prod(tensor.shape)) // n_values
        if tensor.std is None:
            yield np.ones(left, np.float32).tobytes()
            return
        key = (tensor.type_name, tensor.std)
        if key not in self._pools:
            self._pools.clear()  # tensors come in runs of one kind: one pool at a time is enough
            self._pools[key] = random_blocks(self._rng, *key, min(left, POOL_BLOCKS_BYTES // n_bytes))
        pool = self._pools[key]
        while left > 0:
            n = min(left, PIECE_BYTES // n_bytes, len(pool))
            begin = int(self._rng.integers(0, len(pool) - n + 1))
            yield pool[begin:begin + n]
            left -= n


def layer_tensors(shape, layer, type_name):
    other = shape.other_type if shape.other_type and type_name not in ("f16", "bf16") else type_name
    hidden, heads, kv = shape.hidden, shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    experts, intermediate = shape.n_experts, shape.intermediate
    prefix = f"blk.{layer}."

    def matrix(name, matrix_type, *dimensions):
        return Tensor(f"{prefix}{name}.weight", dimensions, matrix_type, dimensions[-1] ** -0.5)

    def ones(name, n):
        return Tensor(f"{prefix}{name}.weight", (n,), "f32", None)

    def bias(name, *dimensions):
        return Tensor(f"{prefix}{name}.bias", dimensions, "f32", 0.02)

    tensors = [
        ones("attn_norm", hidden), ones("post_attention_norm" if shape.oss else "ffn_norm", hidden),
        matrix("attn_q", other, heads, hidden), matrix("attn_k", other, kv, hidden), matrix("attn_v", other, kv, hidden),
        matrix("attn_output", other, hidden, heads),
        matrix("ffn_gate_inp", "f32", experts, hidden),
        matrix("ffn_gate_exps", type_name, experts, intermediate, hidden),
        matrix("ffn_up_exps", type_name, experts, intermediate, hidden),
        matrix("ffn_down_exps", type_name, experts, hidden, intermediate),
    ]
    if shape.qk_norm:
        tensors += [ones("attn_q_norm", shape.head_dim), ones("attn_k_norm", shape.head_dim)]
    if shape.oss:
        tensors += [
            bias("attn_q", heads), bias("attn_k", kv), bias("attn_v", kv), bias("attn_output", hidden),
            Tensor(f"{prefix}attn_sinks.weight", (shape.n_heads,), "f32", 1.0),
            bias("ffn_gate_inp", experts), bias("ffn_gate_exps", experts, intermediate),
            bias("ffn_up_exps", experts, intermediate), bias("ffn_down_exps", experts, hidden),
        ]
    return tensors


def model_tensors(shape, n_layers, type_name):
    other = shape.other_type if shape.other_type and type_name not in ("f16", "bf16") else type_name
    tensors = [
        # Larger than what layers add: smaller ones drown in the averages of attention, and all tokens choose the same experts.
        Tensor("token_embd.weight", (shape.vocab_size, shape.hidden), other, 2.0),
        Tensor("output_norm.weight", (shape.hidden,), "f32", None),
        Tensor("output.weight", (shape.vocab_size, shape.hidden), other, shape.hidden ** -0.5),
    ]
    for layer in range(n_layers):
        tensors += layer_tensors(shape, layer, type_name)
    return tensors


def check_blocks(tensors):
    for tensor in tensors:
        n_values = gguf.GGML_QUANT_SIZES[BLOCK_TYPES[tensor.type_name].code][0]
        if tensor.shape[-1] % n_values:
            raise SystemExit(f"make_moe.py: {tensor.name} has rows of {tensor.shape[-1]} values, "
                             f"which {tensor.type_name}'s blocks of {n_values} do not divide")


def add_metadata(writer, shape, n_layers, name, file_type):
    writer.add_name(name)
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(131072 if shape.oss else 32768)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(n_layers)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_expert_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_expert_count(shape.n_experts)
    writer.add_expert_used_count(shape.n_experts_used)
    writer.add_vocab_size(shape.vocab_size)
    if shape.oss:
        writer.add_sliding_window(128)
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(32.0)
        writer.add_rope_scaling_orig_ctx_len(4096)
    # A vocabulary of made-up words in SentencePiece's form: three specials, 256 bytes, then the words.
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["\u2581"]
    words += [f"\u2581t{i}" for i in range(shape.vocab_size - len(words))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([-float(i) for i in range(shape.vocab_size)])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (shape.vocab_size - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def write_model(shape_name, type_name, path, n_layers=None):
    """Writes the file; a part of it never bears the name `path`."""
    shape = SHAPES[shape_name]
    n_layers = n_layers or shape.n_layers
    tensors = model_tensors(shape, n_layers, type_name)
    check_blocks(tensors)
    partial = path + ".partial"
    writer = gguf.GGUFWriter(partial, shape.architecture)
    add_metadata(writer, shape, n_layers, f"random-{shape_name}-{type_name}-{n_layers}l", BLOCK_TYPES[type_name].file_type)
    sizes = []
    for tensor in tensors:
        code = BLOCK_TYPES[tensor.type_name].code
        n_values, n_bytes = gguf.GGML_QUANT_SIZES[code]
        sizes.append(int(np.prod(tensor.shape)) // n_values * n_bytes)
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), sizes[-1], raw_dtype=code)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    pool = BlockPool(np.random.default_rng(SEED))
    with open(partial, "ab") as file:
        file.write(bytes(-file.tell() % ALIGNMENT))
        for tensor, size in zip(tensors, sizes):
            for piece in pool.pieces(tensor):
                file.write(piece)
            file.write(bytes(-size % ALIGNMENT))
    os.replace(partial, path)
    return tensors, sizes


class SelfTest(unittest.TestCase):
    def test_blocks_have_the_spread_that_is_asked_for(self):
        for type_name in MATRIX_TYPES:
            for std in (0.02, 2048 ** -0.5, 2880 ** -0.5, 768 ** -0.5):
                blocks = random_blocks(np.random.default_rng(1), type_name, std, 20000)
                if type_name == "f16":
                    values = blocks.view(np.float16).astype(np.float32)
                else:
                    values = gguf.quants.dequantize(blocks, BLOCK_TYPES[type_name].code)
                self.assertTrue(np.isfinite(values).all())
                self.assertAlmostEqual(float(np.std(values)) / std, 1, delta=0.02, msg=type_name)
                self.assertLess(abs(float(np.mean(values))) / std, 0.015, msg=type_name)

    def test_a_file_reads_back_and_is_the_same_every_time(self):
        small = {"n_layers": 2, "hidden": 256, "n_experts": 4, "n_experts_used": 2, "intermediate": 256, "vocab_size": 300}
        with tempfile.TemporaryDirectory() as folder:
            for name in ("qwen30", "gpt-oss"):
                with unittest.mock.patch.dict(SHAPES, {"small": replace(SHAPES[name], **small)}):
                    paths = [os.path.join(folder, f"{name}{i}.gguf") for i in range(2)]
                    for path in paths:
                        tensors, sizes = write_model("small", "mxfp4", path)
                contents = []
                for path in paths:
                    with open(path, "rb") as file:
                        contents.append(file.read())
                self.assertEqual(contents[0], contents[1])
                read = gguf.GGUFReader(paths[0]).tensors
                self.assertEqual([(t.name, tuple(reversed(t.shape.tolist())), t.n_bytes) for t in read],
                                 [(t.name, t.shape, size) for t, size in zip(tensors, sizes)])
                norm = next(t for t in read if t.name == "blk.1.attn_norm.weight")
                self.assertTrue((norm.data == 1).all())

    def test_rows_that_blocks_do_not_divide_are_refused(self):
        with self.assertRaises(SystemExit):
            check_blocks(model_tensors(SHAPES["gpt-oss"], 1, "q4_k"))


def main():
    if sys.argv[1:] == ["--self-test"]:
        unittest.main(argv=sys.argv[:1])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", choices=MATRIX_TYPES)
    parser.add_argument("out")
    parser.add_argument("layers", type=int, nargs="?")
    args = parser.parse_args()
    if args.layers is not None and args.layers < 1:
        parser.error("LAYERS must be at least 1")
    tensors, sizes = write_model(args.shape, args.type, args.out, args.layers)
    shape = SHAPES[args.shape]
    read = 0.0  # bytes of weights that a decoded token reads
    for tensor, size in zip(tensors, sizes):
        if "_exps." in tensor.name:
            read += size * shape.n_experts_used / shape.n_experts
        elif tensor.name != "token_embd.weight":
            read += size
    print(f"{args.out}: {sum(sizes) / 1e9:.2f} GB of weights; a decoded token reads {read / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
