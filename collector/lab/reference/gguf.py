"""Writes the reference model: a tiny GGUF with seeded random weights that answers every route.

Real weights are not needed to crash a server. What matters is how long tokenising, unloading and
waking last, and those are set by the parameters: the vocabulary for tokenising and for both ends of
a sleep, layers and padding for unloading and waking.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyzers.errors import UserError
from collector.lab.reference.cache import cache_folder, publish
from collector.lab.reference.vocabulary import Vocabulary, byte_pairs, sentencepiece

# Raised when the bytes written for equal parameters change, so that old cache entries are left alone.
WRITER_VERSION = 1
CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
WEIGHT_SCALE = 0.05  # half width of the uniform weights; keeps activations finite through any depth
HEADS = 4
PAD_BLOCK = 1 << 20  # padding repeats one block of this many weights: its values are never judged
LARGEST_PADDING_MIB = 4096

Tokenizer = Callable[[int | None], Vocabulary]
TOKENIZERS: dict[str, tuple[str, Tokenizer]] = {
    "spm": ("llama", sentencepiece),
    "bpe": ("gpt2", byte_pairs),
}
Weights = NDArray[np.float32]


@dataclass(frozen=True)
class ModelSpec:
    """Everything the bytes of a model depend on.

    ``vocabulary`` counts pieces (None: as few as work). ``padding_mib`` widens the feed-forward
    tensors by about that many MiB in all. ``tokenizer`` is "spm" or "bpe".
    """

    seed: int = 0
    layers: int = 1
    embedding: int = 32
    feed_forward: int = 64
    vocabulary: int | None = None
    padding_mib: int = 0
    context: int = 4096
    tokenizer: str = "spm"

    def __post_init__(self) -> None:
        if self.layers < 1 or self.embedding < 1 or self.embedding % (2 * HEADS):
            raise ValueError(f"layers must be positive and the embedding a multiple of {2 * HEADS}")
        if self.tokenizer not in TOKENIZERS:
            raise ValueError(f"tokenizer must be one of {', '.join(TOKENIZERS)}")
        if not 0 <= self.padding_mib <= LARGEST_PADDING_MIB:
            raise ValueError(f"padding must be 0 to {LARGEST_PADDING_MIB} MiB")

    @property
    def key(self) -> str:
        """Hexadecimal name of the content: equal for equal parameters and writer."""
        text = json.dumps([WRITER_VERSION, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def width(self) -> int:
        """Feed-forward length including the padding."""
        per_column = 3 * 4 * self.embedding * self.layers  # three float32 matrices in each layer
        return self.feed_forward + (self.padding_mib << 20) // per_column


def cached_model(spec: ModelSpec | None = None) -> Path:
    """Path of the model for ``spec``, written on first use under the user's cache folder.

    The file is shared: faults that damage a model work on a copy. Raises UserError when it cannot
    be written.
    """
    spec = spec or ModelSpec()
    target = cache_folder("models") / f"{spec.key}.gguf"
    if target.is_file():
        return target
    try:
        return publish(target, lambda draft: write_model(spec, draft))
    except OSError as error:
        raise UserError(
            f"the model cannot be written ({error.strerror})",
            where=str(target),
            remedy="free some space, or set XDG_CACHE_HOME to another folder",
        ) from None


def write_model(spec: ModelSpec, path: Path) -> None:
    """Write the GGUF for ``spec`` to ``path``; equal parameters give equal bytes.

    Raises UserError when the ``gguf`` package is missing, OSError when ``path`` cannot be written.
    """
    tokenizer, make = TOKENIZERS[spec.tokenizer]
    vocabulary = make(spec.vocabulary)
    writer = _writer(path)
    _describe(writer, spec, len(vocabulary.pieces))
    _describe_tokens(writer, tokenizer, vocabulary)
    for name, weights in _tensors(spec, len(vocabulary.pieces)):
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _writer(path: Path) -> Any:
    try:
        from gguf import GGUFWriter
    except ImportError as error:
        raise UserError(
            f"the package that writes GGUF files cannot be loaded ({error})",
            where="gguf",
            remedy="run: pip install 'llama-blackbox[lab]'",
        ) from None
    return GGUFWriter(path, "llama")


def _describe(writer: Any, spec: ModelSpec, pieces: int) -> None:
    writer.add_name("blackbox-reference")
    writer.add_context_length(spec.context)
    writer.add_embedding_length(spec.embedding)
    writer.add_block_count(spec.layers)
    writer.add_feed_forward_length(spec.width)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(spec.embedding // HEADS)
    writer.add_vocab_size(pieces)
    writer.add_file_type(0)


def _describe_tokens(writer: Any, tokenizer: str, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model(tokenizer)
    writer.add_tokenizer_pre("default")
    writer.add_token_list(vocabulary.pieces)
    writer.add_token_scores(vocabulary.scores)
    writer.add_token_types(vocabulary.types)
    if vocabulary.merges:
        writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _tensors(spec: ModelSpec, pieces: int) -> Iterator[tuple[str, Weights]]:
    size, width = spec.embedding, spec.width
    ones = np.ones(size, np.float32)

    def made(name: str, *shape: int) -> tuple[str, Weights]:
        return name, _weights(spec.seed, name, shape)

    yield made("token_embd.weight", pieces, size)
    for layer in range(spec.layers):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", ones
        yield f"{block}.ffn_norm.weight", ones
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield made(f"{block}.{part}.weight", size, size)
        yield made(f"{block}.ffn_gate.weight", width, size)
        yield made(f"{block}.ffn_up.weight", width, size)
        yield made(f"{block}.ffn_down.weight", size, width)
    yield "output_norm.weight", ones
    yield made("output.weight", pieces, size)


def _weights(seed: int, name: str, shape: tuple[int, ...]) -> Weights:
    """Uniform weights from an extendable hash: numpy's own generators may change their streams
    between releases, and the bytes of a model must not."""
    count = int(np.prod(shape))
    fresh = min(count, PAD_BLOCK)
    stream = hashlib.shake_256(f"{seed}:{name}".encode()).digest(2 * fresh)
    block = np.frombuffer(stream, "<u2").astype(np.float32)
    scaled = (block / np.float32(32767.5) - np.float32(1)) * np.float32(WEIGHT_SCALE)
    return np.resize(scaled, shape)
