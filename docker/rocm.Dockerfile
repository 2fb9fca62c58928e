# dac_rocm on ROCm. Not built here: no AMD GPU was at hand.
#
#   docker build -f docker/rocm.Dockerfile -t dac-rocm .
#   docker run --rm --device /dev/kfd --device /dev/dri --group-add video --ipc host \
#       -v dac-rocm-cache:/cache -v "$PWD:/data" dac-rocm encode /data/speech.wav
FROM rocm/pytorch:latest

RUN apt-get update && apt-get install -y --no-install-recommends libsndfile1 \
    && rm -rf /var/lib/apt/lists/*

# Kernels that MIOpen found, and weights from the Hub, outlive the container.
ENV MIOPEN_FIND_MODE=FAST \
    MIOPEN_USER_DB_PATH=/cache/miopen \
    MIOPEN_CUSTOM_CACHE_DIR=/cache/miopen \
    HF_HOME=/cache/huggingface
VOLUME /cache

COPY . /src
# The image's own torch and torchaudio stay: they are the ROCm builds.
RUN pip install --no-cache-dir /src && dac-rocm models > /dev/null

ENTRYPOINT ["dac-rocm"]
CMD ["doctor"]
