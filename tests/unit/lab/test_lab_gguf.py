"""The generated model: equal parameters give equal bytes, and the parameters do what they say."""

import hashlib
import os

import pytest

from analyzers.errors import UserError
from collector.lab.reference import gguf
from collector.lab.reference.gguf import ModelSpec, cached_model, write_model

# Changes only together with WRITER_VERSION: caches and recorded figures depend on these bytes.
FROZEN = {
    ModelSpec(): "2abae8cdeb22a5a3141b6e3e74e59598167eb0ef82e8be3549eca67e2a49e581",
    ModelSpec(tokenizer="bpe"): "f925614a3d250c85571bf59cea02d5475896a85a7bb903e2e8bc3e9ec029597c",
}


def written(spec, folder, name="m.gguf"):
    path = folder / name
    write_model(spec, path)
    return path.read_bytes()


@pytest.mark.parametrize("spec", FROZEN, ids=lambda spec: spec.tokenizer)
def test_the_bytes_of_a_model_are_frozen(spec, tmp_path):
    # GIVEN a specification WHEN it is written THEN its bytes are those of the first release
    assert hashlib.sha256(written(spec, tmp_path)).hexdigest() == FROZEN[spec]


def test_the_seed_changes_weights_and_nothing_else(tmp_path):
    one, again, other = (
        written(ModelSpec(seed=seed), tmp_path, f"{number}.gguf") for number, seed in enumerate((7, 7, 8))
    )
    assert one == again
    assert one != other
    assert len(one) == len(other)


def test_padding_widens_the_file_by_about_what_was_asked(tmp_path):
    plain, padded = written(ModelSpec(), tmp_path, "a"), written(ModelSpec(padding_mib=3), tmp_path, "b")
    assert 2.9 * 2**20 < len(padded) - len(plain) < 3.1 * 2**20


def test_layers_and_vocabulary_are_in_the_file(tmp_path):
    from gguf import GGUFReader

    path = tmp_path / "m.gguf"
    write_model(ModelSpec(layers=3, vocabulary=2000), path)
    reader = GGUFReader(path)
    assert len(reader.fields["tokenizer.ggml.tokens"].data) == 2000
    assert sum(tensor.name.endswith("attn_q.weight") for tensor in reader.tensors) == 3
    assert reader.fields["tokenizer.chat_template"] is not None


@pytest.mark.parametrize(
    "wrong",
    [{"layers": 0}, {"embedding": 12}, {"tokenizer": "wordpiece"}, {"padding_mib": -1}],
)
def test_senseless_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        ModelSpec(**wrong)


def test_a_vocabulary_below_the_smallest_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least 1062"):
        write_model(ModelSpec(vocabulary=100), tmp_path / "m.gguf")


def test_the_cache_is_named_by_content_and_written_once(tmp_path, monkeypatch):
    # GIVEN an empty cache
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []
    real = gguf.write_model
    monkeypatch.setattr(gguf, "write_model", lambda *args: (calls.append(args), real(*args))[1])
    # WHEN a model is asked for twice and another one once
    first, second, other = cached_model(), cached_model(ModelSpec()), cached_model(ModelSpec(seed=1))
    # THEN equal parameters share one file, made once, under this application's folder
    assert first == second != other
    assert len(calls) == 2
    assert first.is_relative_to(tmp_path / "llama-blackbox")
    assert [path.name for path in first.parent.iterdir() if path.name.startswith(".")] == []


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def broken(_spec, draft):
        draft.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf, "write_model", broken)
    with pytest.raises(UserError, match="No space left"):
        cached_model()
    assert [name for _, _, files in os.walk(tmp_path) for name in files] == []
