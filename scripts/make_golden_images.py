#!/usr/bin/env python3
"""Makes tests/golden/images.json: small images and what Pillow makes of them.

Usage: scripts/make_golden_images.py [FOLDER]     (default: tests/golden of this checkout)

Needs Pillow 11 (pip install "pillow<12"); nothing else of this repository does. Pillow 13
scales the height before the width where the one falls and the other grows, and rounds otherwise.
"""

import base64
import io
import json
import pathlib
import random
import sys
import zlib

import PIL
from PIL import Image

MODES = {"jpeg": ["RGB", "L"], "png": ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"]}
SIZES = [(8, 8), (40, 5), (3, 31), (17, 23), (64, 70), (23, 17)]  # width, height


def picture(width, height, draw):
    """Smooth shapes with some noise: noise alone tests no filter, smoothness alone no rounding."""
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            noise = draw.randrange(-20, 20)
            image.putpixel((x, y), tuple(
                max(0, min(255, value + noise)) for value in
                (x * 255 // width, y * 255 // height, (x * y * 7) % 256)))
    return image


def encoded(image, kind, mode):
    if mode == "I;16":
        upper = image.convert("L").tobytes()
        image = Image.frombytes("I;16", image.size, bytes(b for v in upper for b in (v // 2, v)))
    else:
        image = image.convert(mode)
    out = io.BytesIO()
    image.save(out, kind, **({"quality": 90} if kind == "jpeg" else {}))
    return out.getvalue()


def checksum(image):
    return zlib.crc32(image.tobytes())


def center_crop(image, size):
    """Resize(size) and CenterCrop(size) of torchvision.transforms, for images of any shape."""
    width, height = image.size
    shorter = min(width, height)
    image = image.resize((size * width // shorter, size * height // shorter), Image.BILINEAR)
    left = int(round((image.width - size) / 2.0))
    top = int(round((image.height - size) / 2.0))
    return image.crop((left, top, left + size, top + size))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).resolve().parent.parent / "tests/golden")
    cases = []
    for kind, modes in MODES.items():
        for mode in modes:
            data = encoded(picture(23, 17, random.Random(f"{kind} {mode}")), kind, mode)
            image = Image.open(io.BytesIO(data))
            # A 16-bit grey image has no RGB form in Pillow: its upper bytes are what is expected.
            if mode == "I;16":
                image = Image.frombytes("L", image.size, image.tobytes()[1::2])
            image = image.convert("RGB")
            cases.append({
                "kind": kind, "mode": mode, "file": base64.b64encode(data).decode(),
                "pixels": checksum(image),
                "resized": [{"width": width, "height": height,
                             "pixels": checksum(image.resize((width, height), Image.BILINEAR))}
                            for width, height in SIZES],
                "cropped": [{"size": size, "pixels": checksum(center_crop(image, size))}
                            for size in (6, 17, 30)]})
    value = {"pillow": PIL.__version__, "cases": cases}
    (folder / "images.json").write_text(json.dumps(value, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
