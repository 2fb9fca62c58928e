"""What scripts/demo runs: encode a recording, decode it, and say what came of it."""

import sys
import warnings
from pathlib import Path

import dac_rocm

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "tests/data/audio/speech_it_m_16k.wav"
OUTPUT = ROOT / "demo_output"


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDING
    OUTPUT.mkdir(exist_ok=True)
    encoded, decoded = (OUTPUT / f"{source.stem}.{suffix}" for suffix in ("dacz", "wav"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the notes are printed at the end
        model = dac_rocm.load("tiny")

    there = dac_rocm.encode_file(model, source, encoded, overwrite=True)
    back = dac_rocm.decode_file(model, encoded, decoded, overwrite=True)

    before, after = source.stat().st_size, encoded.stat().st_size
    rows = [
        ("recording", f"{source}, {there.seconds:.2f} s, {before:,} bytes"),
        ("encoded", f"{encoded}, {after:,} bytes, {before / after:.1f} times smaller"),
        ("decoded", f"{decoded}, {back.seconds:.2f} s, {back.subtype}"),
        ("model", f"{model.name}, {model.sample_rate} Hz, on {model.device}"),
        ("bitrate", f"{there.kbps:.2f} kbps, header and checksums included"),
        ("encoding", _speed(there.seconds, there.elapsed)),
        ("decoding", _speed(back.seconds, back.elapsed)),
        *_scores(source, decoded),
        *(("note", note) for note in model.notes),
    ]
    for name, text in rows:
        print(f"{name:<12}{text}")


def _speed(seconds: float, elapsed: float) -> str:
    return f"{elapsed:.2f} s, {seconds / elapsed:.1f} times real time"


def _scores(original: Path, decoded: Path) -> list[tuple[str, str]]:
    from dac_rocm.audio.files import read_audio
    from dac_rocm.evaluate import evaluate

    (x, rate), (y, _) = read_audio(original), read_audio(decoded)
    scores = evaluate(x, y, rate)
    text = f"SI-SDR {scores.si_sdr_db:.1f} dB, log-mel distance {scores.log_mel_db:.2f} dB"
    return [("scores", text + ("" if scores.stoi is None else f", STOI {scores.stoi:.2f}"))]


if __name__ == "__main__":
    main()
