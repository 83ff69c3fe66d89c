#!/usr/bin/env python3
"""llama.cpp as a process that measures on request, so that its memory can be given back between measurements.

Reads requests from standard input, a JSON object a line, and answers each with one on standard output:
  {"open": MODEL, "threads": N, "ubatch": N, "load": "auto" | "none" | "mmap"}     -> what the model is
  {"prompt": N, "generate": N, "batch": N, "flash": bool, "prefill_wanted": bool}  -> {"prefill_s": S or null, "decode_s": S}
An answer {"error": TEXT} stands for a request that failed. The low-level interface is used: it adds nothing to llama.cpp's own time.
"""
import json
import sys
import time

import llama_cpp
from llama_cpp import llama_cpp as api

LOAD_MODES = {"auto": "LLAMA_LOAD_MODE_AUTO", "none": "LLAMA_LOAD_MODE_NONE", "mmap": "LLAMA_LOAD_MODE_MMAP"}
BATCH_TOKENS = 2048  # llama.cpp's default: what a call of llama_decode takes at most
WARM_UP_TOKENS = 512  # enough to touch every expert


def synthetic_ids(n, vocab_size, seed):
    """The same ids as those of `colibri bench`: the splitmix64 sequence, modulo the vocabulary."""
    mask = (1 << 64) - 1
    state, ids = seed, []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        ids.append((z ^ (z >> 31)) % vocab_size)
    return ids


class Model:
    def __init__(self, request):
        api.llama_backend_init()
        self.threads = request["threads"]
        self.ubatch = request["ubatch"]
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        if hasattr(params, "load_mode"):
            params.load_mode = getattr(api, LOAD_MODES[request["load"]])
        elif request["load"] != "auto":
            params.use_mmap = request["load"] == "mmap"
        self.model = api.llama_model_load_from_file(request["open"].encode(), params)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {request['open']}")
        self.vocab_size = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.batch = api.llama_batch_init(BATCH_TOKENS, 0, 1)
        self.contexts = {}  # flash -> (run, Context): those of the latest run alone
        self.measure({"prompt": WARM_UP_TOKENS, "generate": 1, "batch": 1, "flash": True, "prefill_wanted": True})

    def about(self):
        return {"vocab_size": self.vocab_size, "hidden": api.llama_model_n_embd(self.model),
                "bytes": api.llama_model_size(self.model), "parameters": api.llama_model_n_params(self.model),
                "version": llama_cpp.__version__, "system": api.llama_print_system_info().decode().strip()}

    def measure(self, request):
        run = (request["prompt"], request["generate"], request["batch"])
        for flash, (of_run, context) in list(self.contexts.items()):
            if of_run != run:
                context.free()
                del self.contexts[flash]
        fresh = request["flash"] not in self.contexts
        if fresh:
            self.contexts[request["flash"]] = (run, Context(self, *run, request["flash"]))
        context = self.contexts[request["flash"]][1]
        if fresh:
            context.warm_up()
        prefill_s = context.prefill() if request["prefill_wanted"] or not context.filled else None
        return {"prefill_s": prefill_s if request["prefill_wanted"] else None, "decode_s": context.decode()}


class Context:
    """A run's memory of keys and values, and what is done with it."""

    def __init__(self, model, prompt, generate, n_sequences, flash):
        self.model, self.prompt, self.generate, self.n_sequences = model, prompt, generate, n_sequences
        self.filled = False
        params = api.llama_context_default_params()
        positions = prompt + generate + 1  # one more for the warm-up
        params.n_ctx = (positions + 255) // 256 * 256 * n_sequences
        params.n_batch = BATCH_TOKENS
        params.n_ubatch = model.ubatch
        params.n_seq_max = n_sequences
        params.n_threads = params.n_threads_batch = model.threads
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.swa_full = False  # a window's layers keep and read the window alone
        params.kv_unified = False  # a sequence reads its own positions alone
        if hasattr(params, "n_outputs_max"):
            params.n_outputs_max = max(n_sequences, 1)
        self.context = api.llama_init_from_model(model.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp cannot make a context")
        self.memory = api.llama_get_memory(self.context)
        self.ids = [synthetic_ids(prompt + generate, model.vocab_size, b) for b in range(n_sequences)]

    def free(self):
        api.llama_free(self.context)

    def step(self, entries):
        """entries: (token, position, sequence, whether its logits are wanted)"""
        batch = self.model.batch
        batch.n_tokens = len(entries)
        for i, (token, position, sequence, wanted) in enumerate(entries):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wanted
        code = api.llama_decode(self.context, batch)
        if code != 0:
            raise RuntimeError(f"llama_decode gives {code}")

    def prefill(self):
        """Sequence after sequence, as `colibri bench` does it. Seconds."""
        api.llama_memory_clear(self.memory, False)
        begin = time.perf_counter()
        for sequence, ids in enumerate(self.ids):
            for first in range(0, self.prompt, BATCH_TOKENS):
                end = min(first + BATCH_TOKENS, self.prompt)
                self.step([(ids[i], i, sequence, i == self.prompt - 1) for i in range(first, end)])
        api.llama_synchronize(self.context)
        self.filled = True
        return time.perf_counter() - begin

    def decode(self):
        """All sequences together behind their prompts. Seconds."""
        # Of a sliding window that has moved on some positions may be gone: the work stays the same.
        for sequence in range(self.n_sequences):
            api.llama_memory_seq_rm(self.memory, sequence, self.prompt, -1)
        begin = time.perf_counter()
        for position in range(self.prompt, self.prompt + self.generate):
            self.step([(ids[position], position, sequence, True) for sequence, ids in enumerate(self.ids)])
        api.llama_synchronize(self.context)
        return time.perf_counter() - begin

    def warm_up(self):
        """Touches the memory that a run of this shape uses."""
        n = min(self.prompt, WARM_UP_TOKENS, self.model.ubatch)
        self.step([(self.ids[0][i], i, 0, i == n - 1) for i in range(n)])
        self.step([(ids[0], 0 if sequence else n, sequence, True) for sequence, ids in enumerate(self.ids)])
        api.llama_memory_clear(self.memory, False)


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr
    model = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "open" in request:
                model = Model(request)
                answer = model.about()
            else:
                answer = model.measure(request)
        except (RuntimeError, ValueError, AttributeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
