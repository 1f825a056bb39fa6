"""Heads on the Hugging Face Hub: ``save_pretrained``, ``from_pretrained``, ``push_to_hub``.

Owns the model card and where a name is looked for. The files are those of
:mod:`confu_demo.heads.checkpoint`, whose checks all apply. A folder of this machine is read as it
is; the network is asked for nothing but the name of a repository. Knows no maths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from huggingface_hub import ModelCard, ModelCardData, PyTorchModelHubMixin, snapshot_download

from confu_demo.engine.errors import MissingModel, UnsupportedModel

if TYPE_CHECKING:
    from confu_demo.heads.target_info import TargetInfo

_FILES = ["*.json", "*.safetensors", "pytorch_model*.bin"]
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

_CARD = """---
{{ card_data }}
---

# {{ title }}

A draft head for speculative decoding. It fits one target model only: hidden size
{{ hidden_size }}, vocabulary {{ vocab_size }}, features of the residual stream that enters the
layers {{ layers }}{{ weights }}. It drafts {{ draft_vocab_size }} of the target's tokens.

```python
{{ code }}
```

Paper: {{ paper }}
"""

_Head = TypeVar("_Head", bound="HubHead")


class HubHead(
    PyTorchModelHubMixin,
    license="apache-2.0",
    library_name="confu-demo",
    tags=["speculative-decoding"],
    model_card_template=_CARD,
):
    """What a head needs for the Hub. ``card`` holds its provenance and figures (JSON values);
    ``card["license"]`` takes the place of apache-2.0, "unknown" in heads of other projects."""

    card: Mapping[str, Any] = MappingProxyType({})
    _paper = ""

    def _save_pretrained(self, save_directory: Path) -> None:
        from confu_demo.heads.checkpoint import save_head  # it imports the heads in its turn

        save_head(save_directory, self, self.card, allow_larger=True)  # type: ignore[arg-type]

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls: type[_Head],
        pretrained_model_name_or_path: str | Path,
        *,
        target: TargetInfo | None = None,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> _Head:
        """The head in a folder, or in a repository of the Hub, in float32, frozen, in eval mode.

        ``target`` is what it must fit; None leaves that unchecked. Raises :class:`MissingModel`,
        :class:`CorruptModel` or :class:`UnsupportedModel`, each with one sentence.
        """
        # The mixin's own method parses config.json first; ours are checked in one place only.
        return cls._from_pretrained(
            model_id=str(pretrained_model_name_or_path),
            revision=revision,
            cache_dir=cache_dir,
            force_download=force_download,
            local_files_only=local_files_only or isinstance(pretrained_model_name_or_path, Path),
            token=token,
            target=target,
        )

    @classmethod
    def _from_pretrained(  # type: ignore[override]
        cls: type[_Head],
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        target: TargetInfo | None = None,
    ) -> _Head:
        from confu_demo.heads.checkpoint import is_own, load_card, load_head

        folder = Path(model_id)
        if not folder.is_dir():
            folder = _download(
                model_id,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
            )
        head = load_head(folder, target)
        if not isinstance(head, cls):
            raise UnsupportedModel(
                f"{model_id} holds another kind of head; use {type(head).__name__}.from_pretrained"
            )
        head.card = load_card(folder) if is_own(folder) else {"license": "unknown"}
        return head

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The card of the Hub, with what a target must be like."""
        config: Any = getattr(self, "config")  # noqa: B009 (a head's, not the mixin's)
        eagle = getattr(config, "eagle", config)
        data = ModelCardData(**self._hub_mixin_info.model_card_data.to_dict())
        data.license = str(self.card.get("license", data.license))
        name = type(self).__name__
        module = type(self).__module__
        known = f", weights with sha256 `{eagle.target_sha256}`" if eagle.target_sha256 else ""
        fields = {
            "title": f"{name}, {eagle.hidden_size} wide",
            "hidden_size": eagle.target_hidden_size,
            "vocab_size": eagle.target_vocab_size,
            "draft_vocab_size": eagle.draft_vocab_size,
            "layers": ", ".join(map(str, eagle.feature_layers)),
            "weights": known,
            "code": f'from {module} import {name}\n\nhead = {name}.from_pretrained("...")',
            "paper": self._paper,
        }
        return ModelCard.from_template(data, template_str=_CARD, **{**fields, **kwargs})


def _download(name: str, **how: Any) -> Path:
    """The snapshot of a repository. What cannot be the name of one is never asked for."""
    if not _REPOSITORY.fullmatch(name):
        raise MissingModel(f"there is no head in {name} (no such folder)")
    try:
        return Path(snapshot_download(name, allow_patterns=_FILES, **how))
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise MissingModel(
            f"{name} is no folder here, and the Hugging Face Hub did not give it: {reason}"
        ) from error
