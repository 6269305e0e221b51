# syntax=docker/dockerfile:1
# Two images from one file:
#   docker build --target cpu -t apply-service:cpu .
#   docker build --target cuda -t apply-service:cuda .
# The embedded model is inside; other models are read from /models (HF_HOME).  docs/operations.md says how to run them.

FROM python:3.11-slim AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY apply_service apply_service
COPY eval eval
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim AS base
ENV PYTHONUNBUFFERED=1 HF_HOME=/models APPLY_SERVICE_LOG_FORMAT=json APPLY_SERVICE_LOG_LEVEL=info APPLY_SERVICE_STATE_DIR=/tmp/apply-service
RUN useradd --uid 10001 --create-home apply && install -d -o apply /models
COPY constraints.txt /wheels/
COPY --from=wheel /wheels /wheels
EXPOSE 8765
# Health, not readiness: a server with a full queue must not be restarted for it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8765/healthz', timeout=2)"]
ENTRYPOINT ["apply-service"]
# Beyond loopback it starts only with API keys (APPLY_SERVICE_KEYS_FILE) or with APPLY_SERVICE_ALLOW_OPEN=true.
CMD ["serve", "--host", "0.0.0.0"]

FROM base AS cpu
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt \
        --index-url https://download.pytorch.org/whl/cpu --extra-index-url https://pypi.org/simple torch \
    && pip install --no-cache-dir --constraint /wheels/constraints.txt "$(ls /wheels/*.whl)[models]"
# By number, as orchestrators that refuse to run as root want it.
USER 10001

# The default build of torch for Linux brings CUDA's libraries; the driver comes from the host (--gpus all).
# Triton compiles its kernels with a C compiler on first use.
FROM base AS cuda
# The base image's Debian decides their versions.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir --constraint /wheels/constraints.txt "$(ls /wheels/*.whl)[gpu]"
USER 10001
