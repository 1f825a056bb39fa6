"""The answers that shipped heads learned from, as token ids in the repository.

``assets/answers/<suite>/<split>.npz`` saves whoever trains a head most of the wait: what the target
thought at every token (28 KB each, far too much to ship) is one forward over an answer that is
known, three to four times faster than writing it. Knows no target; the claim inside says whose
answers these are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from confu_demo.training.own_outputs import OwnOutput, load_shard

ANSWERS = Path(__file__).resolve().parents[2] / "assets" / "answers"


def publish_answers(folder: Path, path: Path) -> tuple[int, int]:
    """Writes the whole shards in ``folder`` into one file; returns how many documents and tokens.

    FileNotFoundError if there is none; ValueError for token ids beyond 16 bits.
    """
    shards = sorted(folder.glob("shard-*.npz"))
    if not shards:
        raise FileNotFoundError(f"there are no own answers in {folder}")
    found = [load_shard(shard) for shard in shards]
    documents = [document for shard in found for document in shard]
    token_ids = np.concatenate([document.token_ids for document in documents])
    if token_ids.max() > np.iinfo(np.uint16).max:
        raise ValueError("published answers keep token ids in 16 bits: this vocabulary is larger")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        claim=np.array((folder / "own_outputs.json").read_text(encoding="utf-8")),
        shards=np.array([int(shard.stem.removeprefix("shard-")) for shard in shards]),
        sizes=np.array([len(shard) for shard in found]),
        lengths=np.array([len(document.token_ids) for document in documents], dtype=np.int32),
        num_prompt=np.array([document.num_prompt for document in documents], dtype=np.int32),
        temperature=np.array([document.temperature for document in documents]),
        token_ids=token_ids.astype(np.uint16),
    )
    return len(documents), len(token_ids)


def published_shards(path: Path, wanted: dict[str, Any]) -> Iterator[tuple[int, list[OwnOutput]]]:
    """Numbers and documents of the shards in a file, none where there is no such file or where
    its claim is not ``wanted``: another target's answers teach the wrong thing."""
    if not path.is_file():
        return
    with np.load(path) as data:
        if json.loads(str(data["claim"])) != wanted:
            return
        lengths, token_ids = data["lengths"], data["token_ids"].astype(np.int32)
        ids = np.split(token_ids, np.cumsum(lengths)[:-1])
        rows = zip(ids, data["num_prompt"].tolist(), data["temperature"].tolist(), strict=True)
        documents = [OwnOutput(*row) for row in rows]
        start = 0
        for shard, size in zip(data["shards"].tolist(), data["sizes"].tolist(), strict=True):
            yield shard, documents[start : start + size]
            start += size
