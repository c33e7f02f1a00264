# The harness with everything for the simulator: docker build -t lock-harness .
#   docker run --rm -v "$PWD:/work" lock-harness run mylock:MyLock --nemesis client-pause
# For runs on containers give it an engine: -v /var/run/docker.sock:/var/run/docker.sock --user root, and --cluster docker.
# BASE is any image with python3 and its module venv. Without an index, put wheels into the folder wheels, and build with
#   --build-arg PIP_OPTIONS="--no-index --find-links wheels"
ARG BASE=python:3.13-slim-bookworm
FROM ${BASE} AS build
ARG PIP_OPTIONS=""
ARG EXTRAS=all
WORKDIR /source
COPY . .
# pip stays: for runs on containers the harness collects the wheels of their clients with it.
RUN python3 -m venv /opt/harness \
 && /opt/harness/bin/python -m pip install --no-cache-dir ${PIP_OPTIONS} ".[${EXTRAS}]"

FROM ${BASE}
COPY --from=build /opt/harness /opt/harness
ENV PATH=/opt/harness/bin:${PATH}
RUN useradd --create-home harness && install -d -o harness /work
USER harness
WORKDIR /work
ENTRYPOINT ["harness"]
CMD ["--help"]
