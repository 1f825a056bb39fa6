"""Which configs are read, in both layouts of transformers, and which are refused by name."""

from __future__ import annotations

import copy

import pytest

from confu_demo.engine.errors import UnsupportedModel
from confu_demo.engine.model_config import ModelConfig, RopeScaling, default_feature_layers
from tests.engine.kit import LLAMA3_ROPE, VARIANTS, hf_config

OLD_LLAMA = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
OLD_SCALING = {key: value for key, value in LLAMA3_ROPE.items() if key != "rope_theta"}


def test_an_old_config_file_is_read():
    config = ModelConfig.from_hf({**OLD_LLAMA, "rope_scaling": OLD_SCALING})
    assert config == ModelConfig(
        family="llama",
        vocab_size=128,
        hidden_size=64,
        intermediate_size=96,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        rms_norm_eps=1e-5,
        rope_theta=500000.0,
        rope_scaling=RopeScaling(
            factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=16
        ),
        max_positions=512,
        tie_embeddings=True,
        attention_bias=False,
        qk_norm=False,
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_config_object_and_its_dictionary_say_the_same(variant):
    config = hf_config(variant)
    assert ModelConfig.from_hf(config) == ModelConfig.from_hf(config.to_dict())


def test_old_and_new_rope_layouts_say_the_same():
    old = {**OLD_LLAMA, "rope_theta": 500.0, "rope_scaling": OLD_SCALING}
    new = {key: value for key, value in OLD_LLAMA.items() if key != "rope_theta"}
    new["rope_parameters"] = LLAMA3_ROPE
    before = copy.deepcopy((old, new))
    assert ModelConfig.from_hf(old) == ModelConfig.from_hf(new)
    assert (old, new) == before


def test_families_differ_where_they_should():
    qwen2, qwen3 = (ModelConfig.from_hf(hf_config(it)) for it in ("qwen2_bias", "qwen3_qk_norm"))
    assert (qwen2.attention_bias, qwen2.qk_norm, qwen2.rope_theta) == (True, False, 1e6)
    assert (qwen3.attention_bias, qwen3.qk_norm, qwen3.head_dim) == (False, True, 12)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"model_type": "gpt2"}, "'gpt2'"),
        ({"model_type": None}, "None"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"attention_bias": True}, "attention_bias"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "'linear'"),
        ({"model_type": "qwen2", "use_sliding_window": True}, "use_sliding_window"),
        ({"num_attention_heads": 3, "hidden_size": 48}, "3 attention heads"),
        ({"hidden_size": "wide"}, "hidden_size"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(change, name):
    with pytest.raises(UnsupportedModel, match=name) as caught:
        ModelConfig.from_hf({**OLD_LLAMA, **change})
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("num_layers", "want"),
    [
        (1, (0,)),
        (2, (0, 1)),
        (3, (0, 1, 2)),
        (4, (1, 2, 3)),
        (5, (2, 3, 4)),
        (6, (2, 3, 4)),
        (8, (2, 4, 5)),
        (12, (2, 6, 9)),
        (32, (2, 16, 29)),
    ],
)
def test_default_feature_layers_are_eagles_and_distinct(num_layers, want):
    assert default_feature_layers(num_layers) == want
