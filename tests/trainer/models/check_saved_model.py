"""Loads a folder that save_model wrote through transformers and compares the logits."""

import json
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)


def main():
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run([sys.argv[1], folder], check=True, capture_output=True, text=True)
        model, info = transformers.GPT2LMHeadModel.from_pretrained(
            folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[kind], f"{kind}: {info[kind]}"
    expected = torch.tensor(json.loads(printed.stdout)).view(2, 24, 300)
    with torch.no_grad():
        logits = model.eval()(torch.arange(2 * 24).view(2, 24) * 6).logits
    difference = (logits - expected).abs().max().item()
    assert expected.std() > 0.1, "these logits would not tell"
    assert difference < 1e-5, f"logits differ by {difference}"
    print(f"largest difference of the logits: {difference:.1e}")


if __name__ == "__main__":
    main()
