# The harness with everything for the simulator: docker build -t lock-harness .
#   docker run --rm -v "$PWD:/work" lock-harness run mylock:MyLock --nemesis client-pause
# For runs on containers give it an engine: -v /var/run/docker.sock:/var/run/docker.sock, and --cluster docker.
ARG BASE=python:3.13-slim-bookworm
FROM ${BASE} AS build
WORKDIR /source
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM ${BASE}
COPY --from=build /dist /dist
RUN python -m pip install --no-cache-dir "$(ls /dist/*.whl)[all]" && rm -r /dist
RUN useradd --create-home harness && install -d -o harness /work
USER harness
WORKDIR /work
ENTRYPOINT ["harness"]
CMD ["--help"]
