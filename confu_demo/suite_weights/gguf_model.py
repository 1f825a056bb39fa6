"""A GGUF file of the Llama family as Hugging Face has it: config, tensor names, dense tensors.

Reading and dequantising are the ``gguf`` package's; this module owns the names, and undoes the
reordering of query and key rows that llama.cpp's converter does for its own rotary embedding.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from confu_demo.suite_weights.errors import FetchError, one_line

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


class GgufModel:
    """``shapes`` are the tensors by Hugging Face's name; ``tensor`` makes one of them.

    Raises FetchError for a file that cannot be read, or that holds another architecture.
    """

    def __init__(self, path: Path) -> None:
        try:
            import gguf
        except ModuleNotFoundError as error:
            raise FetchError(
                "the Python package gguf is missing: install what requirements.txt lists "
                "(pip install -r requirements.txt)"
            ) from error
        self._gguf = gguf
        try:
            self._reader = gguf.GGUFReader(path)
        except Exception as error:  # numpy and the reader raise what they like
            raise FetchError(f"{path} is no readable GGUF file: {one_line(error)}") from error
        architecture = self.value("general.architecture")
        if architecture != "llama":
            raise FetchError(f"{path} holds a model of the kind {architecture!r}, not llama")
        self._tensors: dict[str, Any] = {hf_name(t.name): t for t in self._reader.tensors}

    def value(self, key: str) -> Any:
        """A metadata value, None where there is none."""
        field = self._reader.get_field(key)
        return None if field is None else field.contents()

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """In the order of the names. GGUF writes the fastest dimension first."""
        return {
            name: tuple(int(size) for size in reversed(self._tensors[name].shape))
            for name in sorted(self._tensors)
        }

    def tensor(self, name: str) -> Tensor:
        """The dense tensor, rounded to bfloat16."""
        stored = self._tensors[name]
        array = self._gguf.dequantize(stored.data, stored.tensor_type)
        dense = torch.from_numpy(array.copy()).reshape(self.shapes[name])
        if name.endswith("q_proj.weight"):
            dense = rotary_halves(dense, self.value("llama.attention.head_count"))
        elif name.endswith("k_proj.weight"):
            dense = rotary_halves(dense, self.value("llama.attention.head_count_kv"))
        return dense.to(torch.bfloat16)

    def config(self, eos_token_ids: tuple[int, ...]) -> dict[str, Any]:
        """``config.json``."""
        heads = self.value("llama.attention.head_count")
        hidden = self.value("llama.embedding_length")
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "dtype": "bfloat16",
            "vocab_size": len(self.value("tokenizer.ggml.tokens")),
            "hidden_size": hidden,
            "intermediate_size": self.value("llama.feed_forward_length"),
            "num_hidden_layers": self.value("llama.block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": self.value("llama.attention.head_count_kv"),
            "head_dim": hidden // heads,
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "rms_norm_eps": self.value("llama.attention.layer_norm_rms_epsilon"),
            "rope_parameters": {
                "rope_theta": self.value("llama.rope.freq_base"),
                "rope_type": "default",
            },
            "max_position_embeddings": self.value("llama.context_length"),
            "tie_word_embeddings": "lm_head.weight" not in self._tensors,
            "bos_token_id": self.value("tokenizer.ggml.bos_token_id"),
            "eos_token_id": list(eos_token_ids),
            "pad_token_id": self.value("tokenizer.ggml.padding_token_id"),
        }


def hf_name(name: str) -> str:
    """``blk.3.attn_q.weight`` -> ``model.layers.3.self_attn.q_proj.weight``."""
    if name in _OUTER_NAMES:
        return _OUTER_NAMES[name]
    block, _, rest = name.partition(".")
    number, _, inner = rest.partition(".")
    part, _, kind = inner.rpartition(".")
    if block != "blk" or part not in _LAYER_NAMES or kind != "weight":
        raise FetchError(f"the GGUF file has a tensor that no Llama has: {name!r}")
    return f"model.layers.{number}.{_LAYER_NAMES[part]}.weight"


def rotary_halves(weight: Tensor, num_heads: int) -> Tensor:
    """Rows of [num_heads * head_dim, D] from interleaved rotary pairs back to two halves."""
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)
