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
