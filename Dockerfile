# docker build -t vsepp/vsepp:0.1.0 . ; the workflow's `container:` names this image (used with apptainer).
FROM python:3.11-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /vsepp
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock

COPY . .
RUN pip install --no-cache-dir --no-deps --editable .
# There is no .git in the image: give the commit that it was built from.
ARG COMMIT=unknown
ENV VSEPP_GIT_COMMIT=$COMMIT

CMD ["snakemake", "--cores", "all", "reproduce_tables"]
