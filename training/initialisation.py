"""Circuit initialisation: the network starts as a machine that copies what followed the same line before.

The residual stream is cut into slots.  Layer 0 looks at offsets 1, 2, 3 and at the tag of the current line and writes
what it finds into a slot each; layer 1 passes the previous token's line tag on and copies by bigram; layer 2 matches
(line tag, last tokens) with the same pair earlier and copies the token that followed.  All else starts near zero, so
training begins with a copier and spends itself on decisions.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch.nn.functional import normalize

from apply_service.prompts.compact import N_PHASES, TAG_KINDS, LineVocabulary
from training.model import Attention, Layer, Network

IDENTITY = slice(0, 64)
"""What the token is."""
ANSWER = slice(64, 128)
"""What the next token will be; read by the head."""
N_CODE = 15
"""Width of a token's code, by which tokens are compared: the head of its identity."""
CODE = slice(0, N_CODE)
N_TAG_ANSWER = 24
"""The last dimensions of an answer are the tags'."""
PREVIOUS_1, PREVIOUS_2, PREVIOUS_3, LINE_TAG, PREVIOUS_LINE_TAG = (
    slice(128 + N_CODE * at, 128 + N_CODE * (at + 1)) for at in range(5)
)
IS_TAG = 240
OPENS_LINE = 241
FILLER = 242
OPENS_MERGE = 243
FREE_DIMS = (*range(PREVIOUS_LINE_TAG.stop, IS_TAG), *range(OPENS_MERGE + 1, 256))
"""No circuit reads these: what tokens mean can be learnt there without disturbing any."""

OFFSET_MARGIN = 8.0
"""Nats by which an offset head prefers its offset to the neighbours."""
MATCH_NATS = 14.0
QUIET = 0.03
"""Scale of everything that writes to the residual and is no part of a circuit."""
STILL = slice(8, 32)
"""Rotary pairs that turn by less than 2^-11 a token: content is matched on these."""


def initialise(network: Network, vocabulary: LineVocabulary, *, seed: int, circuits: bool = True) -> None:
    """Overwrite all parameters of a network with d_model 256, heads of 64 and at least 3 layers; without `circuits` at
    random."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        _make_quiet(network, generator)
        if not circuits:
            return
        _write_embeddings(network.model.embed_tokens.weight, vocabulary, generator)
        layers = [cast(Layer, layer).self_attn for layer in network.model.layers]
        _write_layer_0(layers[0])
        _write_layer_1(layers[1])
        opening = network.model.embed_tokens.weight[vocabulary.original, CODE] * math.sqrt(2)
        _write_layer_2(layers[2], opening)
        network.model.norm.weight.fill_(0.1)
        network.model.norm.weight[ANSWER] = 1.5


def _identities(n: int, generator: torch.Generator) -> torch.Tensor:
    """Random directions [n, 64] of length 1; half of the squared length lies in the code, for every token alike."""
    return _join(_spread(torch.randn(n, N_CODE, generator=generator)), torch.randn(n, 64 - N_CODE, generator=generator))


def _join(code: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    return torch.cat([normalize(code, dim=-1), normalize(rest, dim=-1)], dim=-1) / math.sqrt(2)


def _spread(codes: torch.Tensor, *, steps: int = 300) -> torch.Tensor:
    """Push few directions apart (many stay as they are)."""
    codes = normalize(codes, dim=-1)
    if len(codes) > 2 * N_PHASES:
        return codes
    for _ in range(steps):
        overlap = codes @ codes.T - torch.eye(len(codes))
        codes = normalize(codes - 0.01 * (overlap * (8 * overlap.square()).exp()) @ codes, dim=-1)
    return codes


def _answers(n: int, generator: torch.Generator) -> torch.Tensor:
    """Random directions [n, 64] of length 1 for tags, few and spread."""
    return torch.cat([torch.zeros(n, 64 - N_TAG_ANSWER), _spread(torch.randn(n, N_TAG_ANSWER, generator=generator))], 1)


def _text_answers(n: int, generator: torch.Generator) -> torch.Tensor:
    """Random directions [n, 64] of length 1, at right angles to every tag's: a vote for text is none for a tag."""
    return torch.cat(
        [normalize(torch.randn(n, 64 - N_TAG_ANSWER, generator=generator), dim=-1), torch.zeros(n, N_TAG_ANSWER)], 1
    )


def _make_quiet(network: Network, generator: torch.Generator) -> None:
    for name, parameter in network.named_parameters():
        if parameter.ndim == 1:
            parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            continue
        scale = 1 / math.sqrt(parameter.shape[1])
        if "o_proj" in name or "down_proj" in name:
            scale *= QUIET
        elif "q_proj" in name or "k_proj" in name:
            scale *= 0.5
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def _write_embeddings(weight: torch.Tensor, vocabulary: LineVocabulary, generator: torch.Generator) -> None:
    """Random codes; a tag's is the sum of its kind's and its phase's, so that tags of one line are alike."""
    weight.zero_()
    for part, draw, share in ((IDENTITY, _identities, 0.25), (ANSWER, _answers, 0.5)):
        weight[:, part] = draw(len(weight), generator) if part is IDENTITY else _text_answers(len(weight), generator)
        kinds, phases = draw(len(TAG_KINDS), generator), draw(2 * N_PHASES, generator)
        for at, kind in enumerate(TAG_KINDS):
            of = phases[N_PHASES:] if kind == "take" else phases[:N_PHASES]
            tags = math.sqrt(share) * kinds[at] + math.sqrt(1 - share) * of
            tags = _join(tags[:, CODE], tags[:, N_CODE:]) if part is IDENTITY else normalize(tags, dim=-1)
            first = vocabulary.tag(kind, 0)
            weight[first : first + N_PHASES, part] = tags  # of one length: the tag head compares flags by it
    weight[vocabulary.n_text : vocabulary.first_tag, ANSWER] = _answers(
        vocabulary.first_tag - vocabulary.n_text, generator
    )
    weight[vocabulary.original, ANSWER] = 0.0  # it stands before itself at the start
    weight[vocabulary.merge, IDENTITY] = weight[vocabulary.original, IDENTITY]  # both open with the same
    weight[vocabulary.first_tag :, IS_TAG] = weight[vocabulary.first_tag :, OPENS_LINE] = math.sqrt(0.5)
    weight[vocabulary.merge, OPENS_MERGE] = math.sqrt(0.5)
    for token in (vocabulary.original, vocabulary.update, vocabulary.merge, vocabulary.end, vocabulary.skip):
        weight[token, IS_TAG] = math.sqrt(0.5)
        weight[token, FILLER] = math.sqrt(max(0.0, 3 - float(weight[token].square().sum())))  # one length for all tags


def speed(pair: int) -> float:
    """By how much a rotary pair turns a token, at `Shape.rope_theta`."""
    return float(2.0 ** (-1.5 * pair))


class _Head:
    """The parameters of one attention head, as views."""

    def __init__(self, attention: Attention, at: int) -> None:
        rows = slice(64 * at, 64 * at + 64)
        self.q, self.k, self.v = (p.weight[rows] for p in (attention.q_proj, attention.k_proj, attention.v_proj))
        self.q_bias, self.k_bias = attention.q_proj.bias[rows], attention.k_proj.bias[rows]
        self.o = attention.o_proj.weight[:, rows]
        for part in (self.q, self.k, self.v, self.o):
            part.mul_(0.02)

    def look_at_offset(self, offset: int) -> None:
        """Attend to the position `offset` before, whatever stands there."""
        near = sum(1 - math.cos(speed(i)) for i in range(STILL.start))
        amplitude = math.sqrt(OFFSET_MARGIN * 8 / near)
        for i in range(STILL.start):
            angle = speed(i) * offset
            self.k_bias[i] = amplitude
            self.q_bias[i], self.q_bias[i + 32] = amplitude * math.cos(angle), -amplitude * math.sin(angle)

    def look_at_last_tag(self, *, scale: float) -> None:
        """Attend to the nearest tag at or before the position.  Sums of waves fall by two nats a token; the slowest
        keep the sum from coming back."""
        for i, nats, angle in [*((i, 0.7 / speed(i), 0.8) for i in (2, 3, 4)), *((i, 60.0, 0.0) for i in (5, 6, 7))]:
            amplitude = math.sqrt(nats * 8)
            self.k_bias[i] = amplitude
            self.q_bias[i], self.q_bias[i + 32] = amplitude * math.cos(angle), amplitude * math.sin(angle)
        self.q_bias[31] = 12.0
        self.k[31, IS_TAG] = 123.0 / scale

    def match(
        self, pairs: list[tuple[torch.Tensor, torch.Tensor]], *, scale: float, opening: torch.Tensor | None = None
    ) -> None:
        """Attend where every key part equals its query part; `pairs` are maps [n <= 15, d_model] to codes of length
        one at input length 1, `scale` what the norm makes of length 1.

        A tag never looks for a tag; the merge's opening looks for what came after the token with the code `opening`.
        """
        gain = math.sqrt(MATCH_NATS * 8) / scale
        dims = [*range(STILL.start, STILL.stop - 1), *range(STILL.start + 32, STILL.stop + 31)]
        for query, key in pairs:
            here, dims = dims[: len(query)], dims[len(query) :]
            self.q[here], self.k[here] = gain * query, gain * key
        self.q[31, OPENS_LINE], self.k[31, IS_TAG] = 40.0 / scale, -8.0 / scale
        if opening is not None:
            self.q[63, OPENS_MERGE], self.k[63, PREVIOUS_1] = 40.0 / scale, 20.0 / scale * opening
            self.k[63, CODE] = -12.0 / scale * opening  # not that token itself, which stands before itself

    def seek_tags(self, *, scale: float) -> None:
        """Attend to tags alone (a tag itself still looks for text)."""
        self.q_bias[31] = 12.0
        self.q[31, OPENS_LINE] = -24.0 * math.sqrt(2) / scale
        self.k[31, IS_TAG] = 28.0 / scale

    def move(self, source: torch.Tensor, to: slice, *, scale: float, gain: float = 1.0) -> None:
        """Write `source` [n <= 64, d_model] of what is attended to into the slot `to`."""
        self.v[: len(source)] = source / scale
        self.o[to, : len(source)] = gain * torch.eye(len(source))


def _read(part: slice) -> torch.Tensor:
    """The map that reads a slot."""
    width = part.stop - part.start
    out = torch.zeros(width, 256)
    out[:, part] = torch.eye(width)
    return out


CURRENT = math.sqrt(2) * _read(CODE)


def _write_layer_0(attention: Attention) -> None:
    scale = 16 / math.sqrt(2)
    for at, to in enumerate((PREVIOUS_1, PREVIOUS_2, PREVIOUS_3)):
        head = _Head(attention, at)
        head.look_at_offset(at + 1)
        head.move(CURRENT, to, scale=scale)
    head = _Head(attention, 3)
    head.look_at_last_tag(scale=16 / math.sqrt(3))
    head.move(CURRENT, LINE_TAG, scale=16 / math.sqrt(3))


def _write_layer_1(attention: Attention) -> None:
    scale = 16 / math.sqrt(6)
    shift = _Head(attention, 0)
    shift.look_at_offset(1)
    shift.move(_read(LINE_TAG), PREVIOUS_LINE_TAG, scale=scale)
    copy = _Head(attention, 1)
    pairs = [
        (CURRENT, _read(PREVIOUS_1)),
        (_read(PREVIOUS_1), _read(PREVIOUS_2)),
        (_read(PREVIOUS_2), _read(PREVIOUS_3)),
    ]
    copy.match(pairs, scale=scale)
    copy.move(_read(ANSWER), ANSWER, scale=scale, gain=0.5)


def _write_layer_2(attention: Attention, opening: torch.Tensor) -> None:
    scale = 16 / math.sqrt(7)
    line = (_read(LINE_TAG), _read(PREVIOUS_LINE_TAG))
    last = (CURRENT, _read(PREVIOUS_1))
    before_last = (_read(PREVIOUS_1), _read(PREVIOUS_2))
    third = (_read(PREVIOUS_2), _read(PREVIOUS_3))
    wanted = ([line, last, before_last], [line, last, third], [last, before_last, third], [line, last, before_last])
    for at, pairs in enumerate(wanted):
        head = _Head(attention, at)
        head.match(pairs, scale=scale, opening=opening)
        head.move(_read(ANSWER), ANSWER, scale=scale)
    head.seek_tags(scale=scale)  # whatever the line's end looks like, one head knows the operation after it
