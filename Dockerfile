# docker build -t vsepp:0.3.0 .
# No image was published. The workflow's `container:` (snakemake --sdm apptainer) is a file that is made of this one:
# apptainer build vsepp-0.3.0.sif docker-daemon:vsepp:0.3.0
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
# Snakemake asks for both, and `docker run --user` may give a number without a name or a home folder. It writes results here.
ENV HOME=/tmp USER=vsepp
RUN chmod a+rwx . params reports

CMD ["snakemake", "--cores", "all", "reproduce_tables"]
