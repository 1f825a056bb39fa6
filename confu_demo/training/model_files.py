"""Reads and writes the bundled models as ordinary Hugging Face folders.

Writing goes through transformers itself (config, safetensors in shards below 10 MB), so that any
other program can load what we ship; the model card states only figures handed in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from confu_demo.engine.model_config import ModelConfig
from confu_demo.training.language_model import LanguageModel

MAX_SHARD_SIZE = "9MB"  # hosts refuse larger files without special storage


def load_language_model(folder: Path) -> LanguageModel:
    """float32 on the CPU. FileNotFoundError or ValueError with one sentence."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"no model in {folder}: train one with 'python -m confu_demo train target'"
        )
    config = ModelConfig.from_hf(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    state: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        state.update(load_file(file))
    model = LanguageModel(config)
    if config.tie_embeddings:
        state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    model.load_state_dict({key: value.float() for key, value in state.items()})
    return model


def save_language_model(
    model: LanguageModel, tokenizer: PreTrainedTokenizerFast, folder: Path, card: str
) -> None:
    """Writes weights, config, tokenizer and model card. Only Qwen3 shapes (what we train)."""
    config = model.config
    if config.family != "qwen3":
        raise ValueError(f"only qwen3 models are written, not {config.family}")
    hf_config = Qwen3Config(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        rms_norm_eps=config.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        max_position_embeddings=config.max_positions,
        tie_word_embeddings=config.tie_embeddings,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        use_cache=True,
        dtype="float32",
    )
    twin = Qwen3ForCausalLM(hf_config)
    twin.load_state_dict(model.state_dict())
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    twin.save_pretrained(folder, max_shard_size=MAX_SHARD_SIZE)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(card, encoding="utf-8")


def learning_curve(history: list[dict[str, Any]]) -> str:
    """A Markdown table of the evaluations made on the way. Shares that are right; sure
    means confidence >= 0.9."""
    lines = [
        "| tokens | layers | answers | steps | judge | judge sure | of these right |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in history:
        sure = row["judge_confident_accuracy"]
        lines.append(
            f"| {row['tokens'] / 1e6:.2f} M | {row['layers']} | {row['problem_answers']:.1%} "
            f"| {row['problem_steps']:.1%} | {row['judge_accuracy']:.1%} "
            f"| {row['judge_coverage']:.1%} | {'-' if sure is None else f'{sure:.1%}'} |"
        )
    return "\n".join(lines)
