"""Texts of tokens: fragments wait, and the texts joined are the decoding of the whole."""

from __future__ import annotations

import random

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from confu_demo.engine.text import Detokenizer

SAMPLES = (
    "Hello world, hello again.",
    "안녕하세요, 두 사과와 세 배는 모두 다섯 개입니다.",
    "naïve café 😀👨‍👩‍👧 done",
    "tabs\tand\nnew lines   and spaces",
)


def byte_level() -> Tokenizer:
    """Trained on English only, so that Korean and emoji are split into bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(["hello world and the other 안녕 words"] * 4, trainer)
    return tokenizer


def sentencepiece_like() -> Tokenizer:
    """Leading spaces as in Llama 2, unknown characters as byte tokens."""
    vocab = {"<unk>": 0, **{f"<0x{byte:02X}>": byte + 1 for byte in range(256)}}
    for piece in ("▁", "▁hello", "▁world", "a", "b", "h", "e", "l", "o", "w", "r", "d"):
        vocab[piece] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token="<unk>"))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


def in_parts(detokenizer: Detokenizer, ids: list[int], rng: random.Random) -> list[str]:
    """The texts of ``ids`` asked for in calls of random length."""
    texts: list[str] = []
    while len(texts) < len(ids):
        end = min(len(ids), len(texts) + rng.randrange(1, 4))
        texts += detokenizer.texts_after(ids[: len(texts)], ids[len(texts) : end])
    return texts


@pytest.mark.parametrize("text", SAMPLES)
def test_texts_joined_equal_the_decoding(text):
    tokenizer = byte_level()
    detokenizer = Detokenizer(tokenizer)
    ids = tokenizer.encode(text).ids
    assert "".join(detokenizer.texts_after([], ids)) == detokenizer.decode(ids) == text
    assert "".join(in_parts(detokenizer, ids, random.Random(0))) == text


def test_fragments_wait_for_the_token_that_completes_the_character():
    tokenizer = byte_level()
    ids = tokenizer.encode("a😀각").ids
    assert len(ids) == 8  # 1 + 4 + 3 bytes
    texts = Detokenizer(tokenizer).texts_after([], ids)
    assert texts == ("a", "", "", "", "😀", "", "", "각")
    assert Detokenizer(tokenizer).texts_after(ids[:3], ids[3:5]) == ("", "😀")


def test_a_token_that_ends_inside_a_character_adds_what_is_complete():
    vocab = {"ê": 0, "°": 1, "Ģ": 2, "aê": 3}  # the bytes of 가, and "a" with the first of them
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    assert Detokenizer(tokenizer).texts_after([], [3, 1, 2, 3]) == ("a", "", "가", "a")


def test_random_bytes_join_to_the_decoding_but_for_a_trailing_fragment():
    tokenizer = byte_level()
    detokenizer = Detokenizer(tokenizer)
    rng = random.Random(1)
    waited = 0
    for _ in range(400):
        ids = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randrange(1, 40))]
        shown, whole = "".join(in_parts(detokenizer, ids, rng)), detokenizer.decode(ids)
        assert whole.startswith(shown)
        assert set(whole[len(shown) :]) <= {"\ufffd"}
        waited += whole != shown
    assert waited > 10  # the exception really happens


def test_invalid_bytes_end_as_replacement_characters_only_in_decode():
    tokenizer = byte_level()
    detokenizer = Detokenizer(tokenizer)
    ids = tokenizer.encode("a각").ids[:-1]
    assert detokenizer.texts_after([], ids) == ("a", "", "")
    assert detokenizer.decode(ids) == "a\ufffd"
    following = tokenizer.encode("b").ids
    assert detokenizer.texts_after(ids, following) == ("\ufffdb",)


def test_leading_spaces_and_byte_tokens_of_sentencepiece_are_right():
    tokenizer = sentencepiece_like()
    detokenizer = Detokenizer(tokenizer)

    vocab = tokenizer.get_vocab()

    def ids_of(*parts: str) -> list[int]:
        names: list[str] = []
        for part in parts:
            names += [part] if part in vocab else [f"<0x{byte:02X}>" for byte in part.encode()]
        return [vocab[name] for name in names]

    ids = ids_of("▁hello", "▁world", "▁", "가", "각", "😀", "▁", "▁hello", "a")
    texts = detokenizer.texts_after([], ids)
    assert texts[:3] == ("hello", " world", " ")
    assert texts[3:9] == ("", "", "가", "", "", "각")
    assert "".join(texts) == detokenizer.decode(ids) == "hello world 가각😀  helloa"
    for seed in range(20):
        assert in_parts(detokenizer, ids, random.Random(seed)) == list(texts)


def test_special_tokens_have_no_text_unless_asked_for():
    tokenizer = byte_level()
    end = tokenizer.get_vocab()["<|end|>"]
    emoji = tokenizer.encode("😀").ids
    ids = [*emoji[:2], end, *emoji[2:], end]
    quiet = Detokenizer(tokenizer)
    assert quiet.texts_after([end], ids) == ("", "", "", "", "😀", "")
    assert quiet.decode(ids) == "😀"
    loud = Detokenizer(tokenizer, skip_special_tokens=False)
    assert loud.texts_after([], [end, *emoji]) == ("<|end|>", "", "", "", "😀")


def test_a_transformers_tokenizer_is_as_good_as_its_backend():
    backend = byte_level()
    backend.add_special_tokens([AddedToken("<|user|>", special=True)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=backend)
    ids = backend.encode("hello <|user|> 안녕").ids
    assert Detokenizer(wrapped).texts_after([], ids) == Detokenizer(backend).texts_after([], ids)
    assert Detokenizer(wrapped).decode(ids) == wrapped.decode(ids, skip_special_tokens=True)


def test_a_long_output_is_decoded_a_few_tokens_at_a_time():
    class Counting:
        """Counts the tokens that the backend is asked to decode."""

        def __init__(self, backend: Tokenizer) -> None:
            self.backend, self.num_decoded = backend, 0

        def get_added_tokens_decoder(self):
            return self.backend.get_added_tokens_decoder()

        def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
            self.num_decoded += len(ids)
            return self.backend.decode(ids, skip_special_tokens=skip_special_tokens)

    tokenizer = byte_level()
    counting = Counting(tokenizer)
    detokenizer = Detokenizer(counting)
    ids = tokenizer.encode(SAMPLES[1] * 20).ids
    for index in range(len(ids)):
        detokenizer.texts_after(ids[:index], ids[index : index + 1])
    assert counting.num_decoded < 25 * len(ids)
