# Decoded images → encoders and their features: one pass for all runs that share a frozen encoder.


rule encoder:
    input:
        inputs,
    output:
        files("encoder"),
    log:
        f"{LOGS}/encoder/{{encoder}}.log",
    priority: priority
    resources:
        mem_mb=MEMORY,
    params:
        digest=digest,
        plan=plan,
    message:
        "Encoder {wildcards.encoder}: without its last layer (log: {log})"
    shell:
        "vsepp make encoder {wildcards.encoder} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule pictures:
    input:
        inputs,
    output:
        files("pictures"),
    log:
        f"{LOGS}/pictures/{{pictures}}.log",
    priority: priority
    resources:
        mem_mb=500,
    params:
        digest=digest,
        plan=plan,
    message:
        "Pictures {wildcards.pictures}: small test images to look at (log: {log})"
    shell:
        "vsepp make pictures {wildcards.pictures} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule features:
    input:
        inputs,
    output:
        files("features"),
    log:
        f"{LOGS}/features/{{features}}.log",
    priority: priority
    threads: threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        digest=digest,
        plan=plan,
    message:
        "Features {wildcards.features}: one pass of the encoder over every image (log: {log})"
    shell:
        "vsepp make features {wildcards.features} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule caption_states:
    input:
        inputs,
    output:
        files("caption_states"),
    log:
        f"{LOGS}/caption_states/{{caption_states}}.log",
    priority: priority
    threads: threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        digest=digest,
        plan=plan,
    message:
        "Caption states {wildcards.caption_states}: one pass of the text encoder over every caption (log: {log})"
    shell:
        "vsepp make caption_states {wildcards.caption_states} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule published_features:
    input:
        inputs,
    output:
        files("published"),
    log:
        f"{LOGS}/published_features/{{published}}.log",
    priority: priority
    resources:
        mem_mb=MEMORY,
    params:
        digest=digest,
        plan=plan,
    message:
        "Features {wildcards.published}: as they were published (log: {log})"
    shell:
        "vsepp make published {wildcards.published} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule caption_vectors:
    input:
        inputs,
    output:
        files("vectors"),
    log:
        f"{LOGS}/caption_vectors/{{vectors}}.log",
    priority: priority
    resources:
        mem_mb=MEMORY,
    params:
        digest=digest,
        plan=plan,
    message:
        "Vectors {wildcards.vectors}: how alike captions are (log: {log})"
    shell:
        "vsepp make vectors {wildcards.vectors} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule tape:
    input:
        inputs,
    output:
        files("tape") if PLAN.resources.keep_tapes else temp(files("tape")),
    log:
        f"{LOGS}/tape/{{tape}}.log",
    priority: priority
    threads: threads
    resources:
        mem_mb=MEMORY,
        gpu_part=gpu_parts,
    params:
        digest=digest,
        plan=plan,
    message:
        "Random-crop features {wildcards.tape}, of every epoch (log: {log})"
    shell:
        "vsepp make tape {wildcards.tape} --plan {params.plan} --threads {threads} > {log} 2>&1"
