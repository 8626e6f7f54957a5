# Trained models → embeddings of the test images and captions → ranks and recalls.


rule encode:
    input:
        unpack(encode_inputs),
        run=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/model.safetensors",
    output:
        embeddings=f"{VARIANT}/embeddings/{{run}}/seed-{{seed}}/embeddings.npz",
        manifest=f"{VARIANT}/embeddings/{{run}}/seed-{{seed}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/encode-{{run}}-seed-{{seed}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/encode-{{run}}-seed-{{seed}}.tsv"
    threads: PLAN.parameters.preset.resources.threads
    resources:
        mem_mb=MEMORY,
        gpu=1 if GPUS else 0,
    params:
        spec=run_spec,
        code=lambda wildcards: code.encode_code(PLAN.runs[wildcards.run].spec),
        folders=folders,
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Encode the test set with {wildcards.run}, seed {wildcards.seed}"
    shell:
        "vsepp encode --spec {params.spec:q} {params.folders} --output {params.folder}"
        " --threads {threads} > {log} 2>&1"


rule evaluate:
    input:
        embeddings=f"{VARIANT}/embeddings/{{run}}/seed-{{seed}}/embeddings.npz",
        run=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/model.safetensors",
    output:
        metrics=f"{VARIANT}/metrics/{{run}}/seed-{{seed}}/metrics.json",
        ranks=f"{VARIANT}/metrics/{{run}}/seed-{{seed}}/ranks.npz",
        manifest=f"{VARIANT}/metrics/{{run}}/seed-{{seed}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/evaluate-{{run}}-seed-{{seed}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/evaluate-{{run}}-seed-{{seed}}.tsv"
    threads: PLAN.parameters.preset.resources.threads
    resources:
        mem_mb=1500,
    params:
        protocols=lambda wildcards: PLAN.runs[wildcards.run].protocols,
        fold_size=PLAN.parameters.preset.evaluation.fold_size,
        code=lambda wildcards: code.evaluate_code(),
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Evaluate {wildcards.run}, seed {wildcards.seed}"
    shell:
        "vsepp evaluate {input.embeddings} --run {input.run} --protocol {params.protocols}"
        " --fold-size {params.fold_size} --output {params.folder} > {log} 2>&1"
