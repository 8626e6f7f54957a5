# Decoded images → encoders and their features: one pass for all runs that share a frozen encoder.


rule encoder:
    input:
        unpack(inputs),
    output:
        weights=f"{RESULTS}/encoders/{{encoder}}/encoder.safetensors",
        manifest=f"{RESULTS}/encoders/{{encoder}}/manifest.json",
    log:
        f"{LOGS}/encoder/{{encoder}}.log",
    threads: 1
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Encoder {wildcards.encoder}: without its last layer; a small one is trained on scenes (log: {log})"
    shell:
        "vsepp make encoder --spec {params.spec:q} {params.given} --output {params.folder}"
        " --threads {threads} > {log} 2>&1"


rule pictures:
    input:
        unpack(inputs),
    output:
        pictures=f"{RESULTS}/pictures/{{pictures}}/pictures.npz",
        captions=f"{RESULTS}/pictures/{{pictures}}/captions.json",
        manifest=f"{RESULTS}/pictures/{{pictures}}/manifest.json",
    log:
        f"{LOGS}/pictures/{{pictures}}.log",
    resources:
        mem_mb=500,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Pictures {wildcards.pictures}: small test images to look at (log: {log})"
    shell:
        "vsepp make pictures --spec {params.spec:q} {params.given} --output {params.folder}"
        " > {log} 2>&1"


rule features:
    input:
        unpack(inputs),
    output:
        features=f"{RESULTS}/features/{{features}}/features.npy",
        manifest=f"{RESULTS}/features/{{features}}/manifest.json",
    log:
        f"{LOGS}/features/{{features}}.log",
    threads: THREADS
    resources:
        mem_mb=MEMORY,
        gpu_part=PARTS if GPUS else 0,
    params:
        spec=spec,
        code=code,
        given=given,
        # Derived from the output, so that it writes nothing anew.
        data_on=lambda wildcards, output: RESOURCES.data_on,
        folder=folder,
    message:
        "Features {wildcards.features}: one pass of the encoder over every image (log: {log})"
    shell:
        "vsepp make features --spec {params.spec:q} {params.given} --output {params.folder}"
        " --data-on {params.data_on} --threads {threads} > {log} 2>&1"


rule caption_states:
    input:
        unpack(inputs),
    output:
        states=f"{RESULTS}/features/{{caption_states}}/states.npy",
        manifest=f"{RESULTS}/features/{{caption_states}}/manifest.json",
    log:
        f"{LOGS}/caption_states/{{caption_states}}.log",
    threads: THREADS
    resources:
        mem_mb=MEMORY,
        gpu_part=PARTS if GPUS else 0,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Caption states {wildcards.caption_states}: one pass of the text encoder over every caption (log: {log})"
    shell:
        "vsepp make caption_states --spec {params.spec:q} {params.given} --output {params.folder}"
        " --threads {threads} > {log} 2>&1"


rule published_features:
    input:
        unpack(inputs),
    output:
        features=f"{RESULTS}/features/{{published}}/features.npy",
        manifest=f"{RESULTS}/features/{{published}}/manifest.json",
    log:
        f"{LOGS}/published_features/{{published}}.log",
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Features {wildcards.published}: as they were published (log: {log})"
    shell:
        "vsepp make published --spec {params.spec:q} {params.given} --output {params.folder}"
        " > {log} 2>&1"


rule caption_vectors:
    input:
        unpack(inputs),
    output:
        vectors=f"{RESULTS}/features/{{vectors}}/vectors.npz",
        manifest=f"{RESULTS}/features/{{vectors}}/manifest.json",
    log:
        f"{LOGS}/caption_vectors/{{vectors}}.log",
    resources:
        mem_mb=MEMORY,
    params:
        spec=spec,
        code=code,
        given=given,
        folder=folder,
    message:
        "Vectors {wildcards.vectors}: how alike captions are (log: {log})"
    shell:
        "vsepp make vectors --spec {params.spec:q} {params.given} --output {params.folder}"
        " > {log} 2>&1"


rule tape:
    input:
        unpack(inputs),
    output:
        tape=(directory if RESOURCES.keep_tapes else temp_directory)(
            f"{RESULTS}/tapes/{{tape}}"
        ),
    log:
        f"{LOGS}/tape/{{tape}}.log",
    threads: THREADS
    resources:
        mem_mb=MEMORY,
        gpu_part=PARTS if GPUS else 0,
    params:
        spec=spec,
        code=code,
        given=given,
        # Derived from the output, so that it writes nothing anew.
        data_on=lambda wildcards, output: RESOURCES.data_on,
    message:
        "Random-crop features {wildcards.tape}, of every epoch (log: {log})"
    shell:
        "vsepp make tape --spec {params.spec:q} {params.given} --output {output.tape}"
        " --data-on {params.data_on} --threads {threads} > {log} 2>&1"
