"""Token ids → the states of every token under a frozen text encoder: one pass over all captions."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import CaptionStatesSpec
from vsepp.pipeline.making import take_machine
from vsepp.pipeline.step import Artefacts, Facts, Inputs, Job, Role, Step, short_digest


def run(spec: CaptionStatesSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Encode every caption with the weights that a training would start from."""
    from vsepp.base import components
    from vsepp.data.tokens import Tokens
    from vsepp.data.vocabulary import Vocabulary
    from vsepp.features.caption_states import write_caption_states

    device, facts = take_machine(job, "caption_states")
    options = components.options("text encoder", spec.text)
    text = components.load("text encoder", spec.text.name).TextEncoder(
        len(Vocabulary.read(inputs["tokens"])), options
    )
    text.start(job.raw.get("text_weights"))
    tokens = Tokens.load(inputs["tokens"])
    write_caption_states(text, options.hidden, tokens, out, job.state, device=device)
    return {**facts, "captions": len(tokens)}


def name(spec: CaptionStatesSpec, inputs: Artefacts, label: str) -> str:
    """The tokens, the text encoder and its options."""
    return f"{inputs['tokens'].name}-states-{spec.text.name}-{short_digest(spec.text)}"


STEP = Step(
    "caption_states",
    CaptionStatesSpec,
    run,
    phase="features",
    folder="results/{preset}/features/{name}",
    modules=("vsepp.features.caption_states",),
    components=lambda spec: [("text encoder", spec.text.name)],
    name=name,
    reads={"tokens": Role("folder of the token ids")},
    known_raw=lambda spec, raw: raw,
    files=("states.npy",),
    resumes=True,
    takes=("device", "threads"),
)
