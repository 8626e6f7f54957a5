# Features or images, and word ids → trained models. One job per run and seed.


rule train:
    input:
        unpack(run_inputs),
    output:
        model=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/model.safetensors",
        config=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/config.json",
        history=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/history.csv",
        manifest=f"{VARIANT}/runs/{{run}}/seed-{{seed}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/train-{{run}}-seed-{{seed}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/train-{{run}}-seed-{{seed}}.tsv"
    threads: PLAN.parameters.preset.resources.threads
    resources:
        mem_mb=MEMORY,
        gpu=1 if GPUS else 0,
    params:
        spec=run_spec,
        code=lambda wildcards: code.train_code(PLAN.runs[wildcards.run].spec),
        folders=folders,
        folder=lambda wildcards, output: Path(output.manifest).parent,
    message:
        "Train {wildcards.run}, seed {wildcards.seed}"
    shell:
        "vsepp train --spec {params.spec:q} {params.folders} --output {params.folder}"
        " --threads {threads} > {log} 2>&1"
