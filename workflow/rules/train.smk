# Features or images, and word ids → trained models. One job per run and seed.


rule train:
    input:
        unpack(inputs),
    output:
        model=f"{VARIANT}/runs/{{run}}/model.safetensors",
        config=f"{VARIANT}/runs/{{run}}/config.json",
        history=f"{VARIANT}/runs/{{run}}/history.csv",
        vocabulary=f"{VARIANT}/runs/{{run}}/vocabulary.json",
        manifest=f"{VARIANT}/runs/{{run}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/train/{{run}}.log",
    threads: model_threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        spec=spec,
        code=code,
        given=given,
        # Derived from the output, so that it retrains nothing.
        checkpoints=lambda wildcards, output: RESOURCES.checkpoint_seconds,
        data_on=lambda wildcards, output: RESOURCES.data_on,
        share=lambda wildcards, output: gpu_share(wildcards),
        folder=folder,
    message:
        "Train {wildcards.run} (log: {log})"
    shell:
        "vsepp make run --spec {params.spec:q} {params.given} --output {params.folder}"
        " --checkpoint-seconds {params.checkpoints} --data-on {params.data_on} --device-share {params.share}"
        " --threads {threads} > {log} 2>&1"


rule import_released:
    input:
        unpack(inputs),
    output:
        model=f"{VARIANT}/runs/{{released}}/model.safetensors",
        config=f"{VARIANT}/runs/{{released}}/config.json",
        vocabulary=f"{VARIANT}/runs/{{released}}/vocabulary.json",
        manifest=f"{VARIANT}/runs/{{released}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/import_released/{{released}}.log",
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Convert the released checkpoint {wildcards.released} (log: {log})"
    shell:
        "vsepp make released --spec {params.spec:q} {params.given} --output {params.folder}"
        " > {log} 2>&1"
