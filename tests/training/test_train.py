"""Training: transformers loads the same network, the start is a copier, a resumed run is the same run."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
import torch

from apply_service.prompts.compact import Compact
from tests.training.edits import make_edits
from training.batches import Place, StreamOptions, generate
from training.card import write_card
from training.checkpoint import Progress
from training.corpus import Edit, split_by_repository
from training.evaluate import score_cases, validation_cases
from training.export import average_with_start, export, load_network, load_run
from training.initialisation import initialise
from training.model import Network, Shape
from training.optimizer import orthogonalise
from training.train import MODEL_DIR, Trainer, TrainOptions, rate_at

COMPACT = Compact.from_directory(MODEL_DIR)
N_VOCAB = COMPACT.vocabulary.n_tokens


def write_edits(path: Path, edits: list[Edit]) -> Path:
    rows = (
        {"repo": e.repo, "path": e.path, "language": e.language, "before": e.before, "after": e.after} for e in edits
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def stream_of(tmp_path: Path) -> StreamOptions:
    data = write_edits(tmp_path / "edits.jsonl", make_edits(30))
    return StreamOptions(data, MODEL_DIR, batch_tokens=1500, first_lines=10, last_lines=16)


def test_exported_weights_give_the_same_logits_in_transformers(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    network = Network(Shape(N_VOCAB, n_layers=3))
    initialise(network, COMPACT.vocabulary, seed=0)
    export(network, MODEL_DIR / "tokenizer.json", tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.randint(0, N_VOCAB, (1, 64))
    with torch.no_grad():
        theirs = model(ids).logits[0]
        ours = load_network(tmp_path).logits(ids, torch.arange(64)[None])
    torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=1e-3)


def test_the_untrained_network_copies_and_an_uninitialised_one_does_not() -> None:
    cases = [case for case in validation_cases(make_edits(20), COMPACT, n_cases=18, seed=0) if case.group == "merger"]
    torch.manual_seed(0)
    network = Network(Shape(N_VOCAB, n_layers=3))
    plain = score_cases(network, cases).groups["merger"]
    initialise(network, COMPACT.vocabulary, seed=0)
    circuits = score_cases(network, cases).groups["merger"]
    assert plain.tokens_right < 0.2 * plain.tokens
    assert circuits.tokens_right > 0.9 * circuits.tokens
    assert circuits.decisions_right > 0.8 * circuits.decisions


def test_a_resumed_run_is_bit_equal_to_an_unbroken_one(tmp_path: Path) -> None:
    stream = stream_of(tmp_path)

    def trainer(name: str) -> Trainer:
        options = TrainOptions(run_dir=tmp_path / name, minutes=1, steps=4, n_layers=3, bf16=False)
        return Trainer(options, COMPACT)

    unbroken = trainer("unbroken")
    for batch in islice(generate(stream, Place()), 4):
        unbroken.step(batch)
    first = trainer("broken")
    for batch in islice(generate(stream, Place()), 2):
        first.step(batch)
    first.save()
    second = trainer("broken")
    assert second.progress.step == 2
    for batch in islice(generate(stream, second.progress.place), 2):
        second.step(batch)
    assert second.progress.place == unbroken.progress.place
    other = dict(unbroken.network.named_parameters())
    assert all(torch.equal(value, other[name]) for name, value in second.network.named_parameters())


def test_a_few_steps_lower_the_loss(tmp_path: Path) -> None:
    options = TrainOptions(run_dir=tmp_path / "run", minutes=1, steps=8, lr=3e-3, n_layers=3, bf16=False)
    trainer = Trainer(options, COMPACT)
    batch = next(generate(stream_of(tmp_path), Place()))
    losses = [trainer.step(batch) for _ in range(8)]
    assert losses[-1] < 0.8 * losses[0]


def test_batches_do_not_depend_on_where_a_stream_starts(tmp_path: Path) -> None:
    stream = stream_of(tmp_path)
    batches = list(islice(generate(stream, Place()), 6))
    again = next(generate(stream, batches[2].following))
    assert (again.ids == batches[3].ids).all()
    assert (again.weights == batches[3].weights).all()


def test_a_checkpoint_can_be_exported(tmp_path: Path) -> None:
    trainer = Trainer(TrainOptions(run_dir=tmp_path, minutes=1, n_layers=3), COMPACT)
    trainer.progress = Progress(step=7)
    trainer.save()
    assert Trainer(trainer.options, COMPACT).progress.step == 7
    network, progress = load_run(trainer.path)
    assert progress.step == 7
    loaded = dict(network.named_parameters())
    assert all(torch.equal(value, loaded[name]) for name, value in trainer.network.named_parameters())


def test_averaging_with_the_start_goes_part_of_the_way() -> None:
    start, network = (Network(Shape(N_VOCAB, n_layers=3)) for _ in range(2))
    for each in (start, network):
        initialise(each, COMPACT.vocabulary, seed=0)
    with torch.no_grad():
        network.model.norm.weight.add_(4.0)
    average_with_start(network, COMPACT.vocabulary, share=0.75)
    torch.testing.assert_close(network.model.norm.weight, start.model.norm.weight + 3.0)
    assert torch.equal(network.model.embed_tokens.weight, start.model.embed_tokens.weight)


def test_the_card_tells_what_was_trained_on_what(tmp_path: Path) -> None:
    tally = {
        "n": 3,
        "decision_accuracy": 0.5,
        "contested_accuracy": 0.4,
        "all_right": 0.25,
        "token_accuracy": 0.75,
        "free": 0.1,
    }
    none = [tally | {"decision_accuracy": share} for share in (0, 0.6)]
    scores = [{"merger": tally, "spoilt": tally, "none": group} for group in none]
    train, held_out = split_by_repository(make_edits(70), share=0.3)
    write_card(
        tmp_path,
        network=Network(Shape(N_VOCAB, n_layers=3)),
        progress=Progress(step=7, tokens=2_000_000, seconds=120),
        scores=scores,
        train=train,
        held_out=held_out,
        hardware="an abacus",
        max_lines=99,
        kept=0.75,
        results="RESULTS",
    )
    card = (tmp_path / "README.md").read_text()
    for fact in (
        "7 updates",
        "2.0M tokens",
        "2 minutes on an abacus",
        "RESULTS",
        "in about 40%",
        "at most about 99",
    ):
        assert fact in card
    assert all(edit.repo in card for edit in (*train, *held_out))


@pytest.mark.parametrize("shape", [(8, 8), (8, 20), (20, 8)])
def test_muon_updates_are_nearly_orthogonal(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
    assert values.min() > 0.3
    assert values.max() < 1.4


def test_the_rate_warms_up_and_falls() -> None:
    assert rate_at(0, 0.0) < rate_at(19, 0.1) == 1.0 == rate_at(500, 0.3)
    assert 0.05 <= rate_at(900, 0.99) < rate_at(800, 0.8) < 1.0
