"""An instruct model's own answers to free-text prompts, with what it thought at every token.

The prompts need no download: our own templates (:mod:`confu_demo.data.free_text`), and user turns
that the model writes itself, sampled after the user header of its chat template [O]. Half of the
answers are greedy, half sampled. Passages to summarise are the model's own as well.

A folder of shards of 64 documents: ``shard-00000.npz`` (as own outputs are kept elsewhere) and
``shard-00000.safetensors`` with the records. A shard that exists is never made again, so a run
goes on where it stopped. Knows no head.
"""

from __future__ import annotations

import copy
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from confu_demo.data.free_text import CATEGORIES, Category, Draft, Split, draw
from confu_demo.engine.chat import ChatFormat
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.own_outputs import OwnOutput, claim, load_shard, save_shard, weights_sha256
from confu_demo.training.published_answers import published_shards
from confu_demo.training.records import DocumentRecord, save_records
from confu_demo.training.row_decoder import Record, RowDecoder

SHARD_DOCUMENTS = 64
OWN_TURN = "own turn"
"""The category of a prompt that the model wrote itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """``own_turn_share`` of the training prompts are the model's own user turns; ``greedy_share``
    of the answers are greedy, the others sampled at a temperature between the two. ``dtype`` is
    what the target writes in: bfloat16 is about twice as fast on CPUs that multiply in it."""

    split: Split = "train"
    num_documents: int = 2048
    own_turn_share: float = 0.3
    greedy_share: float = 0.5
    min_temperature: float = 0.6
    max_temperature: float = 1.0
    max_prompt_tokens: int = 208
    max_new_tokens: int = 224
    rows: int = 64
    seed: int = 0
    dtype: Literal["float32", "bfloat16"] = "float32"


@dataclass(slots=True)
class _Job:
    """One document on its way through its stages (write a turn or a passage, then answer)."""

    shard: int
    place: int
    category: str
    draft: Draft | None  # None: the model writes the user's turn
    temperature: float
    rng: random.Random
    stage: str = "answer"  # or "turn", "passage"
    prompt: list[int] = field(default_factory=list)
    text: str = ""
    output: list[int] = field(default_factory=list)
    generator: torch.Generator = field(default_factory=torch.Generator)

    def limit(self, settings: ChatSettings) -> int:
        return {"turn": 40, "passage": 120, "answer": settings.max_new_tokens}[self.stage]

    def stage_temperature(self) -> float:
        return {"turn": 1.0, "passage": 0.7, "answer": self.temperature}[self.stage]


def next_tokens(logits: Tensor, jobs: Sequence[_Job]) -> list[int]:
    """What each job says next, logits [jobs, V]; sampled by its own generator's one draw, so that
    a document does not depend on its neighbours. All rows at once: row by row it took longer than
    the target's forward."""
    warm = [place for place, job in enumerate(jobs) if job.stage_temperature() > 0.0]
    logits = logits.contiguous()
    found = logits.argmax(dim=-1)
    if warm:
        draws = [torch.rand((), generator=jobs[place].generator) for place in warm]
        temperatures = logits.new_tensor([jobs[place].stage_temperature() for place in warm])
        probs = torch.softmax(logits[warm].float() / temperatures[:, None], dim=-1)
        mass = probs.double().cumsum(dim=-1)
        wanted = torch.stack(draws).to(mass)[:, None] * mass[:, -1:]
        drawn = torch.searchsorted(mass, wanted, right=True).flatten()
        found[warm] = drawn.clamp(max=logits.size(-1) - 1)
    tokens: list[int] = found.tolist()
    return tokens


def jobs_of(shard: int, settings: ChatSettings) -> list[_Job]:
    """The documents of a shard, a pure function of the settings and the shard's number."""
    rng = random.Random(f"chat:{settings.split}:{settings.seed}:{shard}")
    jobs = []
    for place in range(SHARD_DOCUMENTS):
        own = random.Random(f"{rng.random()}")
        greedy = own.random() < settings.greedy_share
        temperature = own.uniform(settings.min_temperature, settings.max_temperature)
        writes = settings.split == "train" and own.random() < settings.own_turn_share
        category: Category = CATEGORIES[place % len(CATEGORIES)]
        draft = None if writes else draw(settings.split, category, own)
        stage = "turn" if draft is None else "passage" if draft.passage_prompt else "answer"
        job = _Job(
            shard=shard, place=place, category=OWN_TURN if writes else category, draft=draft,
            temperature=0.0 if greedy else temperature, rng=own, stage=stage,
        )  # fmt: skip
        job.generator.manual_seed(own.getrandbits(48))
        jobs.append(job)
    return jobs


class ChatOutputs:
    """Makes the shards that a folder lacks."""

    def __init__(
        self,
        target: LanguageModel,
        tokenizer: Any,
        folder: Path,
        settings: ChatSettings,
        feature_layers: tuple[int, ...],
        say: Callable[[str], None] = print,
        published: Path | None = None,
    ) -> None:
        """``published``: a file of answers that need not be written again, only read."""
        self._tokenizer, self._folder, self._settings, self._say = tokenizer, folder, settings, say
        wanted = asdict(settings) | {"feature_layers": list(feature_layers)}
        # The first two change no document, the last one only by its rounding.
        del wanted["num_documents"], wanted["rows"], wanted["dtype"]
        self._claim = wanted | {"target_sha256": weights_sha256(target)}
        claim(folder, self._claim)
        self._published = published
        self._format = ChatFormat(tokenizer)
        self._eos = {tokenizer.eos_token_id}
        capacity = settings.max_prompt_tokens + settings.max_new_tokens + 8
        if settings.dtype == "bfloat16":
            target = copy.deepcopy(target).bfloat16()
        self._rows = RowDecoder(target, settings.rows, capacity, feature_layers)
        self._done: dict[int, list[tuple[_Job, Record]]] = {}
        self._made, self._since = 0, time.monotonic()

    def run(self, max_seconds: float | None = None) -> None:
        """Until all shards are there; no new document is begun after ``max_seconds``."""
        self._read_published()
        queue = self._all_jobs()
        busy: list[_Job | None] = [None] * self._settings.rows
        waiting: deque[_Job] = deque()  # documents between two stages
        tokens = torch.zeros(self._settings.rows, dtype=torch.long)
        while True:
            late = max_seconds is not None and time.monotonic() - self._since > max_seconds
            for row, job in enumerate(busy):
                while busy[row] is None:
                    job = waiting.popleft() if waiting else None if late else next(queue, None)
                    if job is None:
                        break
                    tokens[row] = self._begin(row, job)
                    if not self._has_ended(job):
                        busy[row] = job
                    else:
                        self._end(row, job, waiting)
            if all(job is None for job in busy):
                return
            logits = self._rows.step(tokens)
            speaking = [(row, job) for row, job in enumerate(busy) if job is not None]
            said = next_tokens(logits[[row for row, _ in speaking]], [job for _, job in speaking])
            for (row, job), token in zip(speaking, said, strict=True):
                job.output.append(token)
                tokens[row] = token
                self._made += 1
                if self._has_ended(job):
                    self._end(row, job, waiting)
                    busy[row] = None

    def _read_published(self) -> None:
        if self._published is None:
            return
        for shard, outputs in published_shards(self._published, self._claim):
            if shard >= self._num_shards or self._path(shard).is_file():
                continue
            records = []
            for output in outputs:
                self._rows.start(0, output.token_ids[:-1].tolist())
                records.append(self._rows.record(0))
                self._made += len(output.token_ids)
            self._keep(shard, outputs, records)

    @property
    def _num_shards(self) -> int:
        return -(-self._settings.num_documents // SHARD_DOCUMENTS)

    def _all_jobs(self) -> Iterator[_Job]:
        for shard in range(self._num_shards):
            if not self._path(shard).is_file():
                yield from jobs_of(shard, self._settings)

    def _path(self, shard: int) -> Path:
        return self._folder / f"shard-{shard:05d}.npz"

    def _begin(self, row: int, job: _Job) -> int:
        if job.stage == "turn":
            job.prompt = self._format.before
        else:
            draft = job.draft
            asked = job.text
            if draft is not None:
                asked = draft.passage_prompt if job.stage == "passage" else draft.text
                asked = asked.replace("{passage}", job.text)
            job.prompt = self._format.prompt(asked)
            while len(job.prompt) > self._settings.max_prompt_tokens and len(asked) > 1:
                asked = asked[: len(asked) * 9 // 10]  # never the template around it
                job.prompt = self._format.prompt(asked)
        job.output = next_tokens(self._rows.start(row, job.prompt)[None], [job])
        return job.output[0]

    def _has_ended(self, job: _Job) -> bool:
        return job.output[-1] in self._eos or len(job.output) >= job.limit(self._settings)

    def _end(self, row: int, job: _Job, waiting: deque[_Job]) -> None:
        if job.stage != "answer":
            job.text = self._tokenizer.decode(job.output, skip_special_tokens=True).strip()
            job.text = job.text or "Tell me something."
            job.stage = "answer"
            waiting.append(job)
            return
        done = self._done.setdefault(job.shard, [])
        done.append((job, self._rows.record(row)))
        if len(done) == SHARD_DOCUMENTS:
            self._save(job.shard, self._done.pop(job.shard))

    def _save(self, shard: int, done: list[tuple[_Job, Record]]) -> None:
        done.sort(key=lambda pair: pair[0].place)
        documents = [
            OwnOutput(
                np.array([*job.prompt, *job.output], dtype=np.int32),
                len(job.prompt),
                job.temperature,
            )
            for job, _ in done
        ]
        self._keep(shard, documents, [record for _, record in done])

    def _keep(self, shard: int, documents: list[OwnOutput], records: list[Record]) -> None:
        path = self._path(shard)
        save_records(records, path.with_suffix(".safetensors"))
        save_shard(documents, path)  # last: its presence says that the shard is whole
        spent = time.monotonic() - self._since
        self._say(
            f"own answers: shard {shard} done, {self._made / 1e3:.0f}k tokens, "
            f"{self._made / spent:.0f} a second"
        )


MIN_ANSWER_TOKENS = 8
"""Shorter answers have next to nothing to draft."""


@dataclass(frozen=True, slots=True)
class ChatDocument:
    """An answer with the category of its prompt."""

    category: str
    output: OwnOutput


def load_chat_outputs(folder: Path, settings: ChatSettings) -> list[ChatDocument]:
    """The documents of all shards that are there, with their records. FileNotFoundError if there
    is none."""
    documents = []
    for shard in range(-(-settings.num_documents // SHARD_DOCUMENTS)):
        path = folder / f"shard-{shard:05d}.npz"
        if not path.is_file():
            continue
        pairs = zip(jobs_of(shard, settings), load_shard(path), strict=True)
        for place, (job, output) in enumerate(pairs):
            num = len(output.token_ids)
            if num - output.num_prompt >= MIN_ANSWER_TOKENS:
                record = DocumentRecord(path.with_suffix(".safetensors"), place, num - 1)
                documents.append(ChatDocument(job.category, replace(output, record=record)))
    if not documents:
        raise FileNotFoundError(f"there are no own answers in {folder}")
    return documents
