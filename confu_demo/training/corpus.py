"""The training corpus of the bundled models, as shards that are a pure function of their name.

A stream is a kind of document; shard i of a stream is made from the seed ``stream:i``, so a run
can be resumed or repeated anywhere, and ``train corpus`` only writes down what training would
make by itself. A shard holds ragged documents: token ids, and a loss weight for each token.

Weights (our choice, models.md): digits 3 and names 2 in solutions, other solution tokens 1,
questions 0.1; in judge documents the verdict 15 and, for true paraphrases, the second step 0.5.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from confu_demo.data.documents import (
    VERDICT_WORDS,
    judge_pair,
    judge_prompt,
    prompt_text,
    solution_text,
)
from confu_demo.data.drills import drill_lines, easy_pair
from confu_demo.data.problems import DAYS, FOODS, ITEMS, PEOPLE
from confu_demo.data.splits import training_problem

STREAMS = {
    "short": (2, 3),
    "medium": (2, 5),
    "full": (3, 9),
    "judge": (2, 8),
    "easy-judge": (2, 8),
    "drill": (2, 2),
}
DRILL_LINES = 12
SHARD_DOCUMENTS = 2048


@dataclass(frozen=True, slots=True)
class Document:
    token_ids: NDArray[np.int32]  # [n]
    weights: NDArray[np.float32]  # [n], the loss weight of predicting token i from those before
    verdicts: NDArray[np.int8] | None = None  # [n], see DocumentEncoder.judgements


class DocumentEncoder:
    """Texts to documents. Holds the tokenizer and the classes of token that weigh more."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        size = len(tokenizer)
        (self.newline_id,) = tokenizer("\n", add_special_tokens=False)["input_ids"]
        pairs = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in VERDICT_WORDS]
        self.verdict_ids = [ids[0] for ids in pairs]
        self.token_weights = np.ones(size, dtype=np.float32)
        for token_id, piece in enumerate(tokenizer.convert_ids_to_tokens(list(range(size)))):
            word = piece.lstrip("Ġ")
            if word.isdecimal() and word.isascii():
                self.token_weights[token_id] = 3.0
            elif word in _BINDING_WORDS:
                self.token_weights[token_id] = 2.0

    def encode(self, texts: list[str]) -> list[list[int]]:
        return self.tokenizer(texts, add_special_tokens=False)["input_ids"]

    def solutions(self, pairs: list[tuple[str, str]]) -> list[Document]:
        """(prompt, solution) texts -> BOS prompt solution EOS."""
        bos, eos = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        prompts = self.encode([prompt for prompt, _ in pairs])
        bodies = self.encode([body for _, body in pairs])
        documents = []
        for prompt, body in zip(prompts, bodies, strict=True):
            ids = np.array([bos, *prompt, *body, eos], dtype=np.int32)
            weights = self.token_weights[ids]
            weights[: len(prompt) + 1] = 0.1
            documents.append(Document(ids, weights))
        return documents

    def judgements(self, triples: list[tuple[str, str, bool]]) -> list[Document]:
        """(step a, step b, same) -> BOS question verdict.

        Where b is worded like a, ``verdicts`` says at every token of b whether it still equals
        a (0) or has differed (1), elsewhere -1: one word at the end of a document teaches
        comparing far too slowly (measured: at chance after a million tokens).
        """
        bos = self.tokenizer.bos_token_id
        heads = self.encode([judge_prompt(a, "").rpartition("B:")[0] + "B:" for a, _, _ in triples])
        wholes = self.encode(
            [judge_prompt(a, b) + VERDICT_WORDS[0 if same else 1] for a, b, same in triples]
        )
        documents = []
        for head, whole, (_, _, same) in zip(heads, wholes, triples, strict=True):
            ids = np.array([bos, *whole], dtype=np.int32)
            weights = np.zeros(len(ids), dtype=np.float32)
            if same:
                weights[len(head) + 1 :] = 0.5 * self.token_weights[ids[len(head) + 1 :]]
            weights[-1] = 15.0
            documents.append(Document(ids, weights, self._verdicts_on_the_way(ids, len(head) + 1)))
        return documents

    def _verdicts_on_the_way(self, ids: NDArray[np.int32], start: int) -> NDArray[np.int8] | None:
        """``start`` is where b begins; a and b both end before a newline token."""
        newline = self.newline_id
        breaks = np.flatnonzero(ids == newline)
        if len(breaks) != 3:
            return None
        first = ids[breaks[0] + 3 : breaks[1]]
        second = ids[start : breaks[2]]
        if len(first) != len(second) or (first != second).sum() > 4:
            return None
        verdicts = np.full(len(ids), -1, dtype=np.int8)
        verdicts[start : breaks[2]] = np.maximum.accumulate(first != second)
        return verdicts

    def drills(self, documents: list[list[str]]) -> list[Document]:
        """Lines of unrelated steps -> BOS lines. Only digits that follow from others count:
        those after the line's last equals sign, or of its last number."""
        bos = self.tokenizer.bos_token_id
        heads: list[str] = []
        tails: list[str] = []
        for lines in documents:
            for line in lines:
                start = re.search(r"\d+\D*\Z", line)
                assert start is not None
                heads.append(line[: start.start()].rstrip(" "))
                tails.append(line[len(heads[-1]) :] + "\n\n")
        encoded = zip(self.encode(heads), self.encode(tails), strict=True)
        results = []
        for lines in documents:
            ids: list[int] = [bos]
            weights: list[float] = [0.0]
            for _ in lines:
                head, tail = next(encoded)
                ids += head + tail
                weights += [0.0] * len(head)
                weights += [3.0 if self.token_weights[i] == 3.0 else 0.1 for i in tail]
            results.append(Document(np.array(ids, np.int32), np.array(weights, np.float32)))
        return results


_BINDING_WORDS = frozenset({name for name, _ in PEOPLE} | {*ITEMS, *FOODS, *DAYS})


def make_shard(encoder: DocumentEncoder, stream: str, index: int) -> list[Document]:
    rng = random.Random(f"{stream}:{index}")
    if stream == "drill":
        drills = [drill_lines(rng, DRILL_LINES) for _ in range(SHARD_DOCUMENTS)]
        return encoder.drills(drills)
    low, high = STREAMS[stream]
    problems = [
        training_problem(rng, min_steps=low, max_steps=high) for _ in range(SHARD_DOCUMENTS)
    ]
    if stream in ("judge", "easy-judge"):
        make = judge_pair if stream == "judge" else easy_pair
        pairs = [make(problem, rng) for problem in problems]
        return encoder.judgements([(pair.first, pair.second, pair.same) for pair in pairs])
    return encoder.solutions([(prompt_text(p.text), solution_text(p, rng)) for p in problems])


def save_shard(documents: list[Document], path: Path) -> None:
    lengths = np.array([len(document.token_ids) for document in documents], dtype=np.int32)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part.npz")
    np.savez_compressed(
        temporary,
        lengths=lengths,
        token_ids=np.concatenate([document.token_ids for document in documents]).astype(np.uint16),
        weights=np.concatenate([document.weights for document in documents]).astype(np.float16),
        verdicts=np.concatenate([_verdicts_of(document) for document in documents]),
    )
    temporary.replace(path)


def load_shard(path: Path) -> list[Document]:
    with np.load(path) as data:
        ends = np.cumsum(data["lengths"])[:-1]
        ids = np.split(data["token_ids"].astype(np.int32), ends)
        weights = np.split(data["weights"].astype(np.float32), ends)
        verdicts = np.split(data["verdicts"], ends)
    return [
        Document(i, w, v if (v >= 0).any() else None)
        for i, w, v in zip(ids, weights, verdicts, strict=True)
    ]


def _verdicts_of(document: Document) -> NDArray[np.int8]:
    if document.verdicts is None:
        return np.full(len(document.token_ids), -1, dtype=np.int8)
    return document.verdicts


class Corpus:
    """Endless documents of each stream, from shards on disk where they are, else made anew.

    ``extra`` adds streams of ready documents (repeated when they run out)."""

    def __init__(
        self,
        encoder: DocumentEncoder,
        folder: Path | None = None,
        extra: dict[str, list[Document]] | None = None,
    ) -> None:
        self.encoder, self.folder, self.extra = encoder, folder, extra or {}
        self._shard = lru_cache(maxsize=12)(self._load)

    def _load(self, stream: str, index: int) -> list[Document]:
        if self.folder is not None:
            path = self.folder / f"{stream}-{index:05d}.npz"
            if path.is_file():
                return load_shard(path)
        return make_shard(self.encoder, stream, index)

    def documents(self, stream: str, start: int, count: int) -> list[Document]:
        """Documents ``start`` to ``start + count - 1`` of a stream."""
        if stream in self.extra:
            ready = self.extra[stream]
            return [ready[position % len(ready)] for position in range(start, start + count)]
        rows = []
        for position in range(start, start + count):
            shard, offset = divmod(position, SHARD_DOCUMENTS)
            rows.append(self._shard(stream, shard)[offset])
        return rows
