# Embeddings of the test images and captions → ranks and recalls.


rule evaluate:
    input:
        inputs,
    output:
        files("evaluation"),
    log:
        f"{LOGS}/{PLAN.variant}/evaluate/{{evaluation}}.log",
    priority: priority
    threads: threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        digest=digest,
        plan=plan,
    message:
        "Evaluate {wildcards.evaluation}: rank the test images and captions (log: {log})"
    shell:
        "vsepp make evaluation {wildcards.evaluation} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule figure_data:
    output:
        files("figure_data"),
    log:
        f"{LOGS}/{PLAN.variant}/figures/{{figure_data}}.log",
    priority: priority
    resources:
        mem_mb=MEMORY,
    params:
        digest=digest,
        plan=plan,
    message:
        "Data of {wildcards.figure_data}: what a figure draws of losses, computed (log: {log})"
    shell:
        "vsepp make figure_data {wildcards.figure_data} --plan {params.plan} --threads {threads} > {log} 2>&1"
