# Mirrors → raw files → tables of images and captions, word ids, decoded images.


rule download:
    output:
        f"{DOWNLOADS}/{{download}}",
    log:
        f"{LOGS}/download/{{download}}.log",
    # All else waits for downloads.
    priority: 100
    resources:
        mem_mb=300,
    params:
        # Not the mirrors: another mirror is no reason to fetch a file again.
        sha256=lambda wildcards: PLAN.files[wildcards.download].spec.sha256,
        plan=plan,
    message:
        "Download {wildcards.download} (log: {log})"
    shell:
        "vsepp fetch {wildcards.download:q} --plan {params.plan} > {log} 2>&1"


rule scenes:
    output:
        files("scenes"),
    log:
        f"{LOGS}/scenes/{{scenes}}.log",
    priority: priority
    threads: threads
    resources:
        mem_mb=800,
    params:
        digest=digest,
        plan=plan,
    message:
        "Scenes: draw pictures and write captions in the layouts of COCO and Flickr30K (log: {log})"
    shell:
        "vsepp make scenes {wildcards.scenes} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule corpus:
    input:
        inputs,
    output:
        files("corpus"),
    log:
        f"{LOGS}/corpus/{{corpus}}.log",
    priority: priority
    resources:
        mem_mb=MEMORY,
    params:
        digest=digest,
        plan=plan,
    message:
        "Corpus {wildcards.corpus}: read splits and captions (log: {log})"
    shell:
        "vsepp make corpus {wildcards.corpus} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule tokens:
    input:
        inputs,
    output:
        files("tokens"),
    log:
        f"{LOGS}/tokens/{{tokens}}.log",
    priority: priority
    resources:
        mem_mb=1500,
    params:
        digest=digest,
        plan=plan,
    message:
        "Tokens {wildcards.tokens}: build the vocabulary and encode captions (log: {log})"
    shell:
        "vsepp make tokens {wildcards.tokens} --plan {params.plan} --threads {threads} > {log} 2>&1"


rule store:
    input:
        inputs,
    output:
        files("store"),
    log:
        f"{LOGS}/store/{{store}}.log",
    priority: priority
    threads: threads
    resources:
        mem_mb=1800,
    params:
        digest=digest,
        plan=plan,
    message:
        "Store {wildcards.store}: decode every image once (log: {log})"
    shell:
        "vsepp make store {wildcards.store} --plan {params.plan} --threads {threads} > {log} 2>&1"
