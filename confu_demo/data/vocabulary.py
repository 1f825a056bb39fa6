"""The bundled tokenizer: byte-level BPE with single-digit tokens and one token for a blank line.

Every text can be encoded and decoded exactly; common words are one token, a blank line (the step
boundary) is always one token, and so is each digit. Our own choice (models.md).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from confu_demo.data.documents import judge_document, judge_pair, prompt_text, solution_text
from confu_demo.data.splits import training_problem

BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"
_PIECES = r"\n\n|\n|'s| ?[A-Za-z]+| ?\d| ?[^\sA-Za-z\d]+|\s"


def train_tokenizer(texts: Iterable[str], vocab_size: int = 1024) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=20,
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        add_bos_token=False,
    )


def make_tokenizer(folder: Path, num_problems: int = 6000) -> PreTrainedTokenizerFast:
    """Train the tokenizer on fresh documents and save it under ``folder``."""
    rng = random.Random("tokenizer")
    texts = []
    for _ in range(num_problems):
        problem = training_problem(rng, min_steps=2, max_steps=8)
        texts.append(prompt_text(problem.text) + solution_text(problem, rng))
        texts.append(judge_document(judge_pair(problem, rng)))
    tokenizer = train_tokenizer(texts)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    return tokenizer
