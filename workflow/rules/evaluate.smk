# Trained and released models → embeddings of the test images and captions → ranks and recalls.


rule encode:
    input:
        unpack(encode_inputs),
        run=f"{VARIANT}/runs/{{model}}/seed-{{seed}}/model.safetensors",
    output:
        embeddings=f"{VARIANT}/embeddings/{{model}}/seed-{{seed}}/embeddings.npz",
        manifest=f"{VARIANT}/embeddings/{{model}}/seed-{{seed}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/encode-{{model}}-seed-{{seed}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/encode-{{model}}-seed-{{seed}}.tsv"
    threads: model_threads
    resources:
        mem_mb=MEMORY,
        gpu=1 if GPUS else 0,
        gpu_part=gpu_parts,
    params:
        spec=model_spec,
        code=lambda wildcards: code.encode_code(PLAN.models[wildcards.model].spec),
        folders=folders,
        # Derived from the output, so that it encodes nothing anew.
        share=lambda wildcards, output: gpu_share(wildcards),
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Encode the test set with {wildcards.model}, seed {wildcards.seed}"
    shell:
        "vsepp encode --spec {params.spec:q} {params.folders} --output {params.folder}"
        " --device-share {params.share} --threads {threads} > {log} 2>&1"


rule evaluate:
    input:
        embeddings=f"{VARIANT}/embeddings/{{model}}/seed-{{seed}}/embeddings.npz",
        run=f"{VARIANT}/runs/{{model}}/seed-{{seed}}/model.safetensors",
    output:
        metrics=f"{VARIANT}/metrics/{{model}}/seed-{{seed}}/metrics.json",
        ranks=f"{VARIANT}/metrics/{{model}}/seed-{{seed}}/ranks.npz",
        manifest=f"{VARIANT}/metrics/{{model}}/seed-{{seed}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/evaluate-{{model}}-seed-{{seed}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/evaluate-{{model}}-seed-{{seed}}.tsv"
    threads: PLAN.parameters.preset.resources.threads
    resources:
        mem_mb=1500,
    params:
        protocols=lambda wildcards: PLAN.models[wildcards.model].protocols,
        fold_size=PLAN.parameters.preset.evaluation.fold_size,
        code=lambda wildcards: code.evaluate_code(),
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Evaluate {wildcards.model}, seed {wildcards.seed}"
    shell:
        "vsepp evaluate {input.embeddings} --run {input.run} --protocol {params.protocols}"
        " --fold-size {params.fold_size} --output {params.folder} > {log} 2>&1"
