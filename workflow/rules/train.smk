# Features or images, and word ids → trained models. One job per run and seed.


rule train:
    input:
        unpack(run_inputs),
    output:
        model=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/model.safetensors",
        config=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/config.json",
        history=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/history.csv",
        vocabulary=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/vocabulary.json",
        manifest=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/train-{{run}}-seed-{{seed}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/train-{{run}}-seed-{{seed}}.tsv"
    threads: model_threads
    resources:
        mem_mb=MEMORY,
        gpu=1 if GPUS else 0,
        gpu_part=gpu_parts,
    params:
        spec=model_spec,
        code=lambda wildcards: code.train_code(PLAN.runs[wildcards.run].spec),
        folders=folders,
        # Derived from the output, so that it retrains nothing.
        checkpoints=lambda wildcards, output: PLAN.parameters.preset.resources.checkpoint_seconds,
        data_on=lambda wildcards, output: PLAN.parameters.preset.resources.data_on,
        share=lambda wildcards, output: gpu_share(wildcards),
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Train {wildcards.run}, seed {wildcards.seed}"
    shell:
        "vsepp train --spec {params.spec:q} {params.folders} --output {params.folder}"
        " --checkpoint-seconds {params.checkpoints} --data-on {params.data_on} --device-share {params.share}"
        " --threads {threads} > {log} 2>&1"


rule import_released:
    input:
        checkpoint=lambda wildcards: PLAN.released[wildcards.released].checkpoint,
        vocabulary=lambda wildcards: PLAN.released[wildcards.released].vocabulary,
    output:
        model=f"{VARIANT}/runs/{{released}}/seed-{{seed}}/model.safetensors",
        config=f"{VARIANT}/runs/{{released}}/seed-{{seed}}/config.json",
        vocabulary=f"{VARIANT}/runs/{{released}}/seed-{{seed}}/vocabulary.json",
        manifest=f"{VARIANT}/runs/{{released}}/seed-{{seed}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/import_released-{{released}}-seed-{{seed}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/import_released-{{released}}-seed-{{seed}}.tsv"
    resources:
        mem_mb=MEMORY,
    params:
        spec=model_spec,
        code=lambda wildcards: code.released_code(
            PLAN.released[wildcards.released].model.spec
        ),
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Convert the released checkpoint {wildcards.released}"
    shell:
        "vsepp released --spec {params.spec:q} --checkpoint {input.checkpoint:q}"
        " --vocabulary {input.vocabulary:q} --output {params.folder} > {log} 2>&1"


use rule tokens as released_tokens with:
    output:
        tokens=f"{VARIANT}/runs/{{released}}/tokens/tokens.npz",
        vocabulary=f"{VARIANT}/runs/{{released}}/tokens/vocabulary.json",
        manifest=f"{VARIANT}/runs/{{released}}/tokens/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/released_tokens-{{released}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/released_tokens-{{released}}.tsv"
    message:
        "Tokens of {wildcards.released}: encode captions with the vocabulary it was trained with"
