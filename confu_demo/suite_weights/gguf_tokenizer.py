"""The tokenizer that a GGUF file carries, as a fast tokenizer of transformers.

A byte-level BPE. The pre-tokenizer goes by the name in the file: ``smollm`` takes every digit by
itself *before* the byte-level rule. It matters although no token has two digits: spaces or line
ends in front of a digit stay together (two line ends and "1" are two tokens, not three), which is
how the model was trained and what transformers' own reading of GGUF files leaves out.
"""

from __future__ import annotations

from typing import Any

from confu_demo.suite_weights.errors import FetchError
from confu_demo.suite_weights.gguf_model import GgufModel

_CONTROL = 3  # the GGUF token type of special tokens


def make_tokenizer(model: GgufModel) -> Any:
    """Raises FetchError for a kind of tokenizer that this module does not know."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    kind = (model.value("tokenizer.ggml.model"), model.value("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise FetchError(f"the GGUF file has a tokenizer of an unknown kind: {kind}")
    tokens: list[str] = model.value("tokenizer.ggml.tokens")
    types: list[int] = model.value("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in model.value("tokenizer.ggml.merges")]
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    special = [t for t, type_ in zip(tokens, types, strict=True) if type_ == _CONTROL]
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    names = {
        f"{role}_token": tokens[model.value(f"tokenizer.ggml.{key}_token_id")]
        for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=model.value("tokenizer.chat_template"),
        model_max_length=model.value("llama.context_length"),
        clean_up_tokenization_spaces=False,
        **names,
    )
