# Features or images, and word ids → trained models and their embeddings of the test split. One job per run and seed.


rule train:
    input:
        inputs,
    output:
        files("run"),
    log:
        f"{LOGS}/{PLAN.variant}/train/{{run}}.log",
    priority: priority
    threads: threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        digest=digest,
        plan=plan,
    message:
        "Train {wildcards.run} (log: {log})"
    shell:
        "vsepp make run {wildcards.run} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule import_released:
    input:
        inputs,
    output:
        files("released"),
    log:
        f"{LOGS}/{PLAN.variant}/import_released/{{released}}.log",
    priority: priority
    threads: threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        digest=digest,
        plan=plan,
    message:
        "Convert the released checkpoint {wildcards.released}, and embed the test split (log: {log})"
    shell:
        "vsepp make released {wildcards.released} --plan {params.plan} --threads {threads} > {log} 2>&1"
