"""The cases of make_goldens.py: a tiny configuration a family, as hubs spell it, and what each case changes in it."""

ABSENT = object()  # the key is left out of config.json

_COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
    "rope_theta": 10000.0,
    "rope_scaling": None,
}


def _family(architecture, model_type, **keys):
    return {"architectures": [architecture], "model_type": model_type, **_COMMON, **keys}


_LATENT = dict(
    num_key_value_heads=4,
    intermediate_size=112,
    moe_intermediate_size=48,
    kv_lora_rank=32,
    q_lora_rank=40,
    qk_nope_head_dim=24,
    qk_rope_head_dim=16,
    v_head_dim=24,
    n_routed_experts=16,
    n_shared_experts=1,
    num_experts_per_tok=4,
    first_k_dense_replace=1,
    num_nextn_predict_layers=0,
)

FAMILIES = {
    "mixtral": _family(
        "MixtralForCausalLM", "mixtral", intermediate_size=96, num_local_experts=8, num_experts_per_tok=2
    ),
    "qwen2_moe": _family(
        "Qwen2MoeForCausalLM",
        "qwen2_moe",
        intermediate_size=112,
        moe_intermediate_size=48,
        shared_expert_intermediate_size=80,
        num_experts=8,
        num_experts_per_tok=3,
        norm_topk_prob=False,
        decoder_sparse_step=1,
        use_sliding_window=False,
    ),
    "qwen3_moe": _family(
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        head_dim=24,
        intermediate_size=112,
        moe_intermediate_size=48,
        num_experts=8,
        num_experts_per_tok=3,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        use_sliding_window=False,
        sliding_window=None,
    ),
    "olmoe": _family(
        "OlmoeForCausalLM",
        "olmoe",
        num_key_value_heads=4,
        intermediate_size=48,
        num_experts=8,
        num_experts_per_tok=3,
        norm_topk_prob=False,
        clip_qkv=None,
    ),
    "deepseek_v2": _family(
        "DeepseekV2ForCausalLM",
        "deepseek_v2",
        **_LATENT,
        n_group=1,
        topk_group=1,
        topk_method="greedy",
        scoring_func="softmax",
        norm_topk_prob=False,
        routed_scaling_factor=1.0,
        moe_layer_freq=1,
    ),
    "deepseek_v3": _family(
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        **_LATENT,
        n_group=4,
        topk_group=2,
        topk_method="noaux_tc",
        scoring_func="sigmoid",
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
        moe_layer_freq=1,
    ),
    "gpt_oss": _family(
        "GptOssForCausalLM",
        "gpt_oss",
        head_dim=32,
        intermediate_size=64,
        num_local_experts=8,
        num_experts_per_tok=4,
        sliding_window=8,
        attention_bias=True,
        swiglu_limit=7.0,
        rope_theta=150000.0,
        rope_scaling={
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
    ),
    "glm4_moe": _family(
        "Glm4MoeForCausalLM",
        "glm4_moe",
        head_dim=32,
        intermediate_size=112,
        moe_intermediate_size=48,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=3,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
        routed_scaling_factor=1.0,
        partial_rotary_factor=0.5,
        attention_bias=True,
        use_qk_norm=True,
        num_nextn_predict_layers=0,
    ),
    "granite_moe": _family(
        "GraniteMoeForCausalLM",
        "granitemoe",
        intermediate_size=48,
        num_local_experts=8,
        num_experts_per_tok=3,
        attention_multiplier=0.1,
        embedding_multiplier=12.0,
        residual_multiplier=0.22,
        logits_scaling=6.0,
        attention_bias=False,
    ),
    "phimoe": _family(
        "PhimoeForCausalLM",
        "phimoe",
        intermediate_size=96,
        num_local_experts=8,
        num_experts_per_tok=2,
        router_jitter_noise=0.01,
        input_jitter_noise=0.0,
        attention_bias=True,
        lm_head_bias=True,
        sliding_window=None,
    ),
    "dots1": _family(
        "Dots1ForCausalLM",
        "dots1",
        head_dim=16,
        intermediate_size=112,
        moe_intermediate_size=48,
        n_routed_experts=8,
        n_shared_experts=2,
        num_experts_per_tok=3,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
        sliding_window=None,
    ),
    "ernie4_5_moe": _family(
        "Ernie4_5_MoeForCausalLM",
        "ernie4_5_moe",
        intermediate_size=112,
        moe_intermediate_size=48,
        moe_num_experts=8,
        moe_num_shared_experts=2,
        moe_k=3,
        moe_layer_start_index=1,
        moe_layer_end_index=2,
        moe_layer_interval=1,
        use_bias=False,
    ),
    "hunyuan": _family(
        "HunYuanMoEV1ForCausalLM",
        "hunyuan_v1_moe",
        head_dim=16,
        intermediate_size=48,
        num_experts=8,
        moe_topk=2,
        attention_bias=False,
    ),
    "minimax_m2": _family(
        "MiniMaxM2ForCausalLM",
        "minimax_m2",
        head_dim=32,
        intermediate_size=48,
        num_local_experts=8,
        num_experts_per_tok=2,
        rotary_dim=16,
        scoring_func="sigmoid",
        use_qk_norm=True,
        qk_norm_type="per_layer",
        use_routing_bias=True,
    ),
    "llama": _family("LlamaForCausalLM", "llama", intermediate_size=96),
    "qwen2": _family("Qwen2ForCausalLM", "qwen2", intermediate_size=96, use_sliding_window=False),
    "qwen3": _family("Qwen3ForCausalLM", "qwen3", head_dim=24, intermediate_size=96, use_sliding_window=False),
}

CASES = {}


def _case(family, name, config=None, **options):
    CASES[f"{family}-{name}"] = {"family": family, "config": config or {}, **options}


def _factors(n, first, step):
    return [first + step * i for i in range(n)]


# Elements that turn, by family, for the lists of longrope.
_ROTARY = {
    "mixtral": 16, "qwen2_moe": 16, "qwen3_moe": 24, "olmoe": 16, "deepseek_v2": 16, "deepseek_v3": 16, "gpt_oss": 32,
    "glm4_moe": 16, "granite_moe": 16, "phimoe": 16, "dots1": 16, "ernie4_5_moe": 16, "hunyuan": 16, "minimax_m2": 16,
    "llama": 16, "qwen2": 16, "qwen3": 24,
}  # fmt: skip

for _name in FAMILIES:
    # Some configuration classes have head_dim = None, for which transformers' own scalings fail.
    _head = {"head_dim": 16} if _name in ("mixtral", "hunyuan") else {}
    _mscales = {"short_mscale": 1.1, "long_mscale": 1.3} if _name == "phimoe" else {}
    _mscaled = {**_mscales, "original_max_position_embeddings": 64} if _mscales else {}
    _n = _ROTARY[_name] // 2

    def _scaling(name, scaling, _name=_name, _head=_head, _mscales=_mscales, **keys):
        scaling = {key: value for key, value in scaling.items() if value is not ABSENT}
        if _name == "phimoe":
            # It looks this up for every type. Prompt and answer stay on one side of it: transformers changes over within a
            # sequence, Colibri does not.
            scaling["original_max_position_embeddings"] = max(128, scaling.get("original_max_position_embeddings", 128))
        options = {key: keys.pop(key) for key in ("tokens", "dtype", "seed") if key in keys}
        _case(_name, name, {**_head, "rope_scaling": {**scaling, **_mscales}, **keys}, **options)

    _case(_name, "base", tokens=64)
    _case(_name, "bf16", {"torch_dtype": "bfloat16"}, dtype="bf16", seed=1)
    _case(_name, "f16-sharded", {"torch_dtype": "float16"}, dtype="f16", shards=3, seed=2)
    _case(_name, "eps", {"rms_norm_eps": 1e-2, "rope_theta": 12345.5})
    _case(_name, "tied", {"tie_word_embeddings": True})
    _case(_name, "no-eps-no-theta", {"rms_norm_eps": ABSENT, "rope_theta": ABSENT, "hidden_act": ABSENT, "tie_word_embeddings": ABSENT})
    _case(_name, "one-layer", {"num_hidden_layers": 1})
    if not _name.startswith("deepseek"):
        _case(_name, "one-kv", {"num_key_value_heads": 1})
        _case(_name, "all-kv", {"num_key_value_heads": 4})
    if _name != "gpt_oss":
        _case(_name, "gelu", {"hidden_act": "gelu"})
        _case(_name, "gelu-tanh", {"hidden_act": "gelu_pytorch_tanh"})
        _case(_name, "gelu-new", {"hidden_act": "gelu_new"})
        _case(_name, "relu2", {"hidden_act": "relu2"})
        _case(_name, "gelu-fast", {"hidden_act": "gelu_fast"})
        _case(_name, "swish", {"hidden_act": "swish"})
    _yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    _scaling("yarn", _yarn, max_position_embeddings=128, tokens=64)
    _scaling("yarn-type", {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64})
    _scaling("yarn-betas", {**_yarn, "beta_fast": 12, "beta_slow": 2.5})
    _scaling("yarn-zero-betas", {**_yarn, "beta_fast": 0, "beta_slow": 0})
    _scaling("yarn-attention", {**_yarn, "attention_factor": 0.8})
    _scaling("yarn-mscale", {**_yarn, "mscale": 0.7, "mscale_all_dim": 1.3})
    _scaling("yarn-mscale-one", {**_yarn, "mscale": 0.7})
    _scaling("yarn-mscale-all", {**_yarn, "mscale_all_dim": 1.2})
    _scaling("yarn-mscale-equal", {**_yarn, "mscale": 0.707, "mscale_all_dim": 0.707})
    _scaling("yarn-truncate", {**_yarn, "truncate": False})
    _scaling("yarn-truncate-on", {**_yarn, "truncate": True, "factor": 3.5})
    _scaling("yarn-no-original", {"rope_type": "yarn", "factor": 2.0}, max_position_embeddings=64)
    _scaling("yarn-null-factor", {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 32}, max_position_embeddings=160)
    _scaling("yarn-outside", {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}, original_max_position_embeddings=48)
    _scaling("yarn-inner-theta", {**_yarn, "rope_theta": 5000.0})
    _scaling("linear", {"rope_type": "linear", "factor": 3.0})
    _scaling("linear-type", {"type": "linear", "factor": 2.5})
    _scaling("dynamic-short", {"rope_type": "dynamic", "factor": 3.0})
    _scaling("llama3", {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})
    _scaling("llama3-others", {"rope_type": "llama3", "factor": 5.0, "low_freq_factor": 1.5, "high_freq_factor": 3.0, "original_max_position_embeddings": 40})
    _long = {"rope_type": "longrope", "short_factor": _factors(_n, 1.0, 0.1), "long_factor": _factors(_n, 2.0, 0.5)}
    _scaling("longrope-short", {**_long, "original_max_position_embeddings": 128})
    _scaling("longrope-factor", {**_long, "original_max_position_embeddings": 128, "factor": 2.0})
    _scaling("longrope-attention", {**_long, "original_max_position_embeddings": 128, "attention_factor": 1.4})
    _scaling("longrope-long", {**_long, "original_max_position_embeddings": 16})
    _scaling("longrope-outside", _long, original_max_position_embeddings=100)
    _scaling("longrope-type", {**_long, "rope_type": ABSENT, "type": "longrope", "original_max_position_embeddings": 128})
    _scaling("default-type", {"rope_type": "default"})
    _scaling("partial-inside", {"rope_type": "default", "partial_rotary_factor": 0.25})
    _case(_name, "empty-scaling", {"rope_scaling": {}})
    _case(_name, "no-scaling", {"rope_scaling": ABSENT})
    _case(_name, "v5-rope", {"rope_scaling": ABSENT, "rope_theta": ABSENT, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 777.0, **_mscaled}})
    _case(_name, "both-ropes", {"rope_scaling": {"rope_type": "linear", "factor": 2.0, **_mscaled}, "rope_theta": ABSENT, "rope_parameters": {"rope_type": "default", "rope_theta": 777.0}})
    _case(_name, "v5-rope-and-theta", {"rope_scaling": ABSENT, "rope_theta": 3333.0, "rope_parameters": {"rope_type": "linear", "factor": 2.0, **_mscaled}})

for _name in ("llama", "mixtral", "phimoe", "granite_moe", "qwen2_moe", "olmoe", "qwen2", "glm4_moe", "qwen3_moe", "minimax_m2", "dots1", "gpt_oss", "qwen3"):
    _case(_name, "no-head-dim", {"head_dim": ABSENT, "num_attention_heads": 4} if _name not in ("gpt_oss", "minimax_m2", "qwen3") else {"head_dim": ABSENT, "num_attention_heads": 2, "num_key_value_heads": 1})
    if _name not in ("olmoe",):
        _case(_name, "wide-head", {"head_dim": 40})
for _name in ("llama", "mixtral"):
    _case(_name, "null-head-dim", {"head_dim": None})
for _name in ("llama", "granite_moe", "olmoe", "qwen3_moe", "qwen3", "dots1", "hunyuan", "phimoe", "glm4_moe", "deepseek_v2", "deepseek_v3", "gpt_oss"):
    _case(_name, "attention-bias", {"attention_bias": True})
    _case(_name, "no-attention-bias", {"attention_bias": False})
    _case(_name, "absent-attention-bias", {"attention_bias": ABSENT})
for _name in ("llama", "olmoe", "granite_moe", "hunyuan", "qwen2", "qwen3", "dots1"):
    _case(_name, "null-kv", {"num_key_value_heads": None})
for _name in ("llama", "olmoe", "granite_moe", "hunyuan"):
    _case(_name, "absent-kv", {"num_key_value_heads": ABSENT})
for _name in FAMILIES:
    if "num_experts_per_tok" in FAMILIES[_name] and _name != "phimoe":
        _experts = FAMILIES[_name].get("num_local_experts") or FAMILIES[_name].get("num_experts") or 8
        _case(_name, "top1", {"num_experts_per_tok": 1})
        _case(_name, "top-all", {"num_experts_per_tok": _experts})

for _name in ("mixtral", "phimoe", "gpt_oss"):
    _case(_name, "window", {"sliding_window": 7}, tokens=64)
    _case(_name, "window-1", {"sliding_window": 1})
    _case(_name, "window-wide", {"sliding_window": 400})
    if _name != "gpt_oss":
        _case(_name, "window-null", {"sliding_window": None})
_case("mixtral", "window-absent", {"sliding_window": ABSENT})
_types = ["full_attention", "sliding_attention", "sliding_attention"]
for _name in ("qwen2", "qwen3", "qwen2_moe", "dots1", "gpt_oss"):
    _use = {} if _name in ("dots1", "gpt_oss") else {"use_sliding_window": True}
    _case(_name, "layer-types", {**_use, "sliding_window": 5, "layer_types": _types}, tokens=40)
for _name in ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe"):
    for _from in (0, 1, 2, 9):
        _case(_name, f"window-from-{_from}", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": _from}, tokens=40)
    _case(_name, "window-unused", {"use_sliding_window": False, "sliding_window": 6, "max_window_layers": 1}, tokens=40)
    _case(_name, "window-flag-absent", {"use_sliding_window": ABSENT, "sliding_window": 6, "max_window_layers": 1}, tokens=40)
    if _name != "qwen2_moe":
        _case(_name, "window-null-used", {"use_sliding_window": True, "sliding_window": None, "max_window_layers": 1}, tokens=40)
_case("dots1", "window-from-1", {"sliding_window": 6, "max_window_layers": 1}, tokens=40)
_case("dots1", "window-absent", {"sliding_window": ABSENT, "max_window_layers": 1}, tokens=40)
_case("gpt_oss", "no-layer-types-4", {"num_hidden_layers": 4}, tokens=40)

for _name in ("qwen2_moe", "qwen3_moe"):
    _case(_name, "norm-on", {"norm_topk_prob": True})
    _case(_name, "norm-off", {"norm_topk_prob": False})
    _case(_name, "norm-absent", {"norm_topk_prob": ABSENT})
    _case(_name, "sparse-2", {"decoder_sparse_step": 2, "num_hidden_layers": 5})
    _case(_name, "sparse-3", {"decoder_sparse_step": 3, "num_hidden_layers": 4, "mlp_only_layers": [2]})
    _case(_name, "mlp-only", {"mlp_only_layers": [0, 2]})
    _case(_name, "mlp-only-null", {"mlp_only_layers": None})
_case("qwen3_moe", "local-experts", {"num_experts": ABSENT, "num_local_experts": 8})
_case("qwen2_moe", "no-qkv-bias", {"qkv_bias": False})
_case("qwen2_moe", "attention-bias-unused", {"attention_bias": True})
for _name in ("olmoe",):
    _case(_name, "norm-on", {"norm_topk_prob": True})
    _case(_name, "clip", {"clip_qkv": 0.7})
    _case(_name, "clip-gqa", {"clip_qkv": 1.2, "num_key_value_heads": 2, "attention_bias": True})
    _case(_name, "local-experts", {"num_experts": ABSENT, "num_local_experts": 8})
_case("mixtral", "experts-name", {"num_local_experts": ABSENT, "num_experts": 8})
_case("mixtral", "jitter", {"router_jitter_noise": 0.3})
_case("mixtral", "absent-top", {"num_experts_per_tok": ABSENT})

for _name in ("deepseek_v2", "deepseek_v3"):
    _case(_name, "no-q-lora", {"q_lora_rank": None})
    _case(_name, "shared-3", {"n_shared_experts": 3})
    _case(_name, "dense-0", {"first_k_dense_replace": 0})
    _case(_name, "dense-2", {"first_k_dense_replace": 2})
    _case(_name, "dense-all", {"first_k_dense_replace": 3})
    _case(_name, "scale", {"routed_scaling_factor": 0.37})
    _case(_name, "odd-sizes", {"qk_nope_head_dim": 8, "qk_rope_head_dim": 12, "v_head_dim": 20, "kv_lora_rank": 36})
    _case(_name, "norm-on", {"norm_topk_prob": True})
    _case(_name, "norm-off", {"norm_topk_prob": False})
    _case(_name, "linear-mscale", {"rope_scaling": {"rope_type": "linear", "factor": 3.0, "mscale_all_dim": 1.1}})
    _case(_name, "default-mscale", {"rope_scaling": {"rope_type": "default", "factor": 3.0, "mscale_all_dim": 1.1}})
_case("deepseek_v2", "groups", {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "routed_scaling_factor": 16.0})
_case("deepseek_v2", "groups-8-3", {"topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3})
_case("deepseek_v2", "greedy-groups", {"topk_method": "greedy", "n_group": 4, "topk_group": 1})
_case("deepseek_v2", "null-groups", {"n_group": None, "topk_group": None})
_case("deepseek_v2", "absent-method", {"topk_method": ABSENT, "scoring_func": ABSENT, "norm_topk_prob": ABSENT, "routed_scaling_factor": ABSENT, "n_group": ABSENT, "topk_group": ABSENT, "moe_layer_freq": ABSENT, "first_k_dense_replace": ABSENT, "n_shared_experts": ABSENT})
_case("deepseek_v2", "mlp-bias", {"mlp_bias": True})
_case("deepseek_v3", "one-group", {"n_group": 1, "topk_group": 1})
_case("deepseek_v3", "groups-8-3", {"n_group": 8, "topk_group": 3})
_case("deepseek_v3", "no-interleave", {"rope_interleave": False})
_case("deepseek_v3", "interleave", {"rope_interleave": True})
_case("deepseek_v3", "big-bias", {}, bias_scale=15.0)
_case("deepseek_v3", "absent-router", {"topk_method": ABSENT, "scoring_func": ABSENT, "norm_topk_prob": ABSENT, "routed_scaling_factor": ABSENT, "n_group": ABSENT, "topk_group": ABSENT, "n_routed_experts": 32, "first_k_dense_replace": 1, "n_shared_experts": ABSENT, "num_experts_per_tok": ABSENT, "num_nextn_predict_layers": ABSENT})
_case("deepseek_v3", "absent-dense", {"first_k_dense_replace": ABSENT, "num_hidden_layers": 4})
_case("deepseek_v3", "local-experts", {"n_routed_experts": ABSENT, "num_local_experts": 16})

_case("gpt_oss", "limit", {"swiglu_limit": 1.5})
_case("gpt_oss", "alpha", {"swiglu_alpha": 1.1, "swiglu_limit": 2.0})
_case("gpt_oss", "absent-limit", {"swiglu_limit": ABSENT, "num_experts_per_tok": ABSENT})
_case("gpt_oss", "default-rope", {"rope_scaling": {"rope_type": "default"}})
_case("gpt_oss", "null-rope", {"rope_scaling": None, "rope_theta": ABSENT})

for _name in ("glm4_moe", "dots1"):
    _case(_name, "norm-off", {"norm_topk_prob": False})
    _case(_name, "norm-absent", {"norm_topk_prob": ABSENT})
    _case(_name, "scale", {"routed_scaling_factor": 0.4})
    _case(_name, "scale-absent", {"routed_scaling_factor": ABSENT})
    _case(_name, "groups", {"n_group": 4, "topk_group": 2})
    _case(_name, "groups-absent", {"n_group": ABSENT, "topk_group": ABSENT})
    _case(_name, "dense-0", {"first_k_dense_replace": 0})
    _case(_name, "dense-2", {"first_k_dense_replace": 2})
    _case(_name, "dense-absent", {"first_k_dense_replace": ABSENT})
    _case(_name, "shared-3", {"n_shared_experts": 3})
    _case(_name, "big-bias", {}, bias_scale=20.0)
_case("glm4_moe", "no-qk-norm", {"use_qk_norm": False})
_case("glm4_moe", "absent-qk-norm", {"use_qk_norm": ABSENT, "attention_bias": ABSENT})
_case("glm4_moe", "partial-absent", {"partial_rotary_factor": ABSENT})
_case("glm4_moe", "partial-quarter", {"partial_rotary_factor": 0.25})
_case("glm4_moe", "partial-full", {"partial_rotary_factor": 1.0})
_case("glm4_moe", "shared-absent", {"n_shared_experts": ABSENT})

_case("granite_moe", "multipliers", {"attention_multiplier": 0.7, "embedding_multiplier": 0.5, "residual_multiplier": 1.7, "logits_scaling": 0.3})
_case("granite_moe", "no-multipliers", {"attention_multiplier": ABSENT, "embedding_multiplier": ABSENT, "residual_multiplier": ABSENT, "logits_scaling": ABSENT})
_case("granite_moe", "tied-multipliers", {"tie_word_embeddings": True, "logits_scaling": 8})
_case("granite_moe", "wide-experts", {"num_local_experts": 40, "num_experts_per_tok": 8})

_case("phimoe", "jitter", {"router_jitter_noise": 0.4})
_case("phimoe", "jitter-0", {"router_jitter_noise": 0.0})
_case("phimoe", "jitter-absent", {"router_jitter_noise": ABSENT})
_case("phimoe", "no-head-bias", {"lm_head_bias": False, "attention_bias": False})
_case("phimoe", "tied-head-bias", {"lm_head_bias": True, "tie_word_embeddings": True})
_case("phimoe", "top-absent", {"num_experts_per_tok": ABSENT})

_case("ernie4_5_moe", "bias", {"use_bias": True})
_case("ernie4_5_moe", "bias-tied", {"use_bias": True, "tie_word_embeddings": True})
_case("ernie4_5_moe", "no-shared", {"moe_num_shared_experts": 0})
_case("ernie4_5_moe", "interval", {"moe_layer_interval": 2, "num_hidden_layers": 5, "moe_layer_start_index": 0, "moe_layer_end_index": 4})
_case("ernie4_5_moe", "range", {"num_hidden_layers": 5, "moe_layer_start_index": 2, "moe_layer_end_index": 3})
_case("ernie4_5_moe", "to-the-end", {"moe_layer_end_index": -1, "moe_layer_start_index": 0})
_case("ernie4_5_moe", "absent", {"moe_layer_end_index": ABSENT, "moe_layer_start_index": ABSENT, "moe_layer_interval": ABSENT, "moe_num_shared_experts": ABSENT, "moe_k": ABSENT, "use_bias": ABSENT})
_case("ernie4_5_moe", "norm-min", {"moe_norm_min": 0.9})
_case("ernie4_5_moe", "top-1", {"moe_k": 1})
_case("ernie4_5_moe", "names", {"moe_num_experts": ABSENT, "num_experts": 8, "moe_k": ABSENT, "num_experts_per_tok": 2})
_case("ernie4_5_moe", "big-bias", {}, bias_scale=0.9)

_case("hunyuan", "topk-list", {"moe_topk": [1, 3, 8]})
_case("hunyuan", "alpha", {"rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}})
_case("hunyuan", "alpha-others", {"rope_scaling": {"type": "dynamic", "alpha": 50.5, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 0.0}})
_case("hunyuan", "top-absent", {"moe_topk": ABSENT})
_case("hunyuan", "names", {"moe_topk": ABSENT, "num_experts_per_tok": 3})

_case("minimax_m2", "partial", {"rotary_dim": ABSENT, "partial_rotary_factor": 0.75})
_case("minimax_m2", "full", {"rotary_dim": ABSENT})
_case("minimax_m2", "both", {"rotary_dim": 16, "partial_rotary_factor": 0.25})
_case("minimax_m2", "big-bias", {}, bias_scale=7.0)
_case("minimax_m2", "absent", {"scoring_func": ABSENT, "use_qk_norm": ABSENT, "use_routing_bias": ABSENT, "qk_norm_type": ABSENT})

_case("llama", "mlp-bias", {"mlp_bias": True, "attention_bias": True})

# Small enough to stand in the repository (tests/golden/cases), each with several options at once.
_TINY = dict(
    hidden_size=32, num_hidden_layers=2, vocab_size=48, max_position_embeddings=128, torch_dtype="bfloat16",
)  # fmt: skip


def _tiny(family, name, **config):
    sizes = {key: 8 for key in ("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size") if key in FAMILIES[family]}
    experts = {key: 4 for key in ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts") if key in FAMILIES[family]}
    heads = {"head_dim": 8} if "head_dim" in FAMILIES[family] else {}
    options = {key: config.pop(key) for key in ("bias_scale", "tokens") if key in config}
    CASES[f"tiny-{name}"] = {
        "family": family, "config": {**_TINY, **sizes, **experts, **heads, **config}, "dtype": "bf16", "tokens": 10, **options,
    }  # fmt: skip


_tiny("mixtral", "mixtral-absent-keys", rms_norm_eps=ABSENT, rope_theta=ABSENT, hidden_act=ABSENT, tie_word_embeddings=ABSENT, num_experts_per_tok=ABSENT, head_dim=8, sliding_window=5,
      rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 2000.0, "beta_fast": 0})
_tiny("qwen2_moe", "qwen2_moe-hybrid", decoder_sparse_step=2, qkv_bias=False, hidden_act="gelu", norm_topk_prob=True, use_sliding_window=True, sliding_window=4, max_window_layers=1, rms_norm_eps=1e-3)
_tiny("olmoe", "olmoe-clip", clip_qkv=0.6, num_key_value_heads=2, attention_bias=True, rms_norm_eps=1e-2, num_experts_per_tok=2, rope_scaling={"type": "linear", "factor": 2.5})
_tiny("deepseek_v2", "deepseek_v2-groups", topk_method="group_limited_greedy", n_group=2, topk_group=1, num_experts_per_tok=2, routed_scaling_factor=16.0, kv_lora_rank=16, q_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4,
      rope_scaling={"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.9, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 16})
_tiny("deepseek_v3", "deepseek_v3-no-q-lora", q_lora_rank=None, n_group=2, topk_group=2, num_experts_per_tok=2, norm_topk_prob=ABSENT, routed_scaling_factor=ABSENT, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=8, v_head_dim=10, attention_bias=True, rope_interleave=False, bias_scale=7.0)
_tiny("gpt_oss", "gpt_oss-default-rope", rope_scaling=None, rope_theta=ABSENT, swiglu_alpha=1.2, swiglu_limit=1.5, sliding_window=4, num_experts_per_tok=2)
_tiny("glm4_moe", "glm4_moe-groups", partial_rotary_factor=ABSENT, n_group=2, topk_group=1, num_experts_per_tok=2, norm_topk_prob=False, routed_scaling_factor=0.4, use_qk_norm=False, bias_scale=5.0, head_dim=16)
_tiny("granite_moe", "granite_moe-multipliers", attention_multiplier=0.3, embedding_multiplier=3.0, residual_multiplier=0.7, logits_scaling=2.5, tie_word_embeddings=True,
      rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
_tiny("phimoe", "phimoe-longrope", router_jitter_noise=0.3, lm_head_bias=True, tie_word_embeddings=True,
      rope_scaling={"type": "longrope", "short_factor": _factors(4, 1.0, 0.3), "long_factor": _factors(4, 2.0, 1.0), "short_mscale": 1.1, "long_mscale": 1.3, "original_max_position_embeddings": 64})
_tiny("ernie4_5_moe", "ernie4_5_moe-interval", num_hidden_layers=3, moe_layer_interval=2, moe_layer_start_index=0, moe_layer_end_index=-1, use_bias=True, tie_word_embeddings=ABSENT, moe_norm_min=0.9, moe_k=2, moe_num_shared_experts=1)
_tiny("hunyuan", "hunyuan-lists", moe_topk=[1, 3], rope_scaling={"type": "dynamic", "alpha": 100.0, "factor": 1.0})
_tiny("minimax_m2", "minimax_m2-rotary-dim", rotary_dim=4, bias_scale=7.0)
