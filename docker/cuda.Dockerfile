# dac_rocm on CUDA. Not built here: no NVIDIA GPU was at hand.
#
#   docker build -f docker/cuda.Dockerfile -t dac-rocm .
#   docker run --rm --gpus all -v dac-rocm-cache:/cache -v "$PWD:/data" \
#       dac-rocm encode /data/speech.wav
FROM python:3.12-slim

# Triton compiles its launchers with gcc at the first call.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libsndfile1 \
    && rm -rf /var/lib/apt/lists/*

ENV HF_HOME=/cache/huggingface \
    TRITON_CACHE_DIR=/cache/triton
VOLUME /cache

COPY . /src
# PyPI's torch for Linux is the CUDA build; the driver comes with `--gpus`.
RUN pip install --no-cache-dir /src && dac-rocm models > /dev/null

ENTRYPOINT ["dac-rocm"]
CMD ["doctor"]
