# What can be asked for by name.


rule reproduce_tables:
    input:
        pages=[f"{made.folder}/index.html" for made in PLAN.of_kind("report").values()],
        # What is missing below a page is made again, and so is the page.
        made=of_phase("results"),
    message:
        "Tables and figures are in {input.pages}"


rule all_downloads:
    input:
        files=[str(file.path) for file in PLAN.files.values()],
    message:
        "Every raw file is there"


rule all_corpus:
    input:
        made=of_phase("corpus"),
    message:
        "Splits, captions and word ids are ready"


# Not part of the corpus: only what reads images asks for them, and nothing does where its results were fetched.
rule all_stores:
    input:
        made=of_phase("corpus", versioned=False),
    message:
        "Every image is decoded"


rule all_features:
    input:
        made=of_phase("features"),
    message:
        "Encoders and features are ready"


rule all_models:
    input:
        made=of_phase("models"),
    message:
        "Every run is trained"


rule all_results:
    input:
        made=of_phase("results"),
    message:
        "Every run is evaluated"
