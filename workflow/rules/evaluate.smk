# Trained and released models → embeddings of the test images and captions → ranks and recalls.


rule evaluate:
    input:
        unpack(inputs),
    output:
        embeddings=f"{VARIANT}/evaluations/{{evaluation}}/embeddings.npz",
        metrics=f"{VARIANT}/evaluations/{{evaluation}}/metrics.json",
        ranks=f"{VARIANT}/evaluations/{{evaluation}}/ranks.npz",
        manifest=f"{VARIANT}/evaluations/{{evaluation}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/evaluate/{{evaluation}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/evaluate/{{evaluation}}.tsv"
    threads: model_threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        spec=spec,
        code=code,
        given=given,
        # Derived from the output, so that it evaluates nothing anew.
        share=lambda wildcards, output: gpu_share(wildcards),
        folder=folder,
    message:
        "Evaluate {wildcards.evaluation}: embed and rank the test images and captions (log: {log})"
    shell:
        "vsepp make evaluation --spec {params.spec:q} {params.given} --output {params.folder}"
        " --device-share {params.share} --threads {threads} > {log} 2>&1"


# Of a corpus in shards the test images and captions are embedded by themselves, and ranked by several jobs, see shards.smk.
rule embed:
    input:
        unpack(inputs),
    output:
        embeddings=f"{VARIANT}/embeddings/{{embeddings}}/embeddings.npz",
        manifest=f"{VARIANT}/embeddings/{{embeddings}}/manifest.json",
    log:
        f"{LOGS}/{PLAN.variant}/embed/{{embeddings}}.log",
    benchmark:
        f"{BENCHMARKS}/{PLAN.variant}/embed/{{embeddings}}.tsv"
    threads: model_threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        spec=spec,
        code=code,
        given=given,
        share=lambda wildcards, output: gpu_share(wildcards),
        folder=folder,
    message:
        "Embed {wildcards.embeddings} (log: {log})"
    shell:
        "vsepp make embeddings --spec {params.spec:q} {params.given} --output {params.folder}"
        " --device-share {params.share} --threads {threads} > {log} 2>&1"
