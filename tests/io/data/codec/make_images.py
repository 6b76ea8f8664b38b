"""Writes the small images of this folder and golden.txt, what Pillow decodes them to.

    python make_images.py      (Pillow, numpy and libjpeg-turbo's cjpeg; the files are in the tree, so this runs only to change them)

A line of golden.txt: file, width, height, FNV-1a-64 of ImageOps.exif_transpose(image).convert("RGB") and of
the same as "L". 16-bit grey keeps the upper byte (Pillow clips instead, which no one expects).
"""

import io
import os
import struct
import subprocess
import zlib

import numpy as np
from PIL import Image, ImageOps

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "images")


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def make_image(width, height, seed):
    """Waves, an edge and some noise: every coefficient of a block has work to do."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for c in range(3):
        wave = 127 + 90 * np.sin(x / (3 + c) + c) * np.cos(y / (5 - c))
        wave[(x + 2 * y) % (17 + c) < 5] += 60
        planes.append(wave + rng.normal(0, 12, (height, width)))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def png_chunks(width, height, depth, color_type, rows, extra=b"", interlaced=False):
    def chunk(tag, body):
        return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))

    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, interlaced)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def passes(pixels):
    """The rows of Adam7's seven passes, which Pillow reads and doesn't write."""
    for x, y, step_x, step_y in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        for row in pixels[y::step_y, x::step_x]:
            if row.size:
                yield row.tobytes()


def main():
    os.makedirs(HERE, exist_ok=True)
    files = {}

    def save(name, image, **options):
        buffer = io.BytesIO()
        formats = {"jpg": "JPEG", "ppm": "PPM", "pgm": "PPM", "pbm": "PPM"}
        ending = name.split(".")[1]
        image.save(buffer, formats.get(ending, ending.upper()), **options)
        files[name] = buffer.getvalue()

    rgb = Image.fromarray(make_image(53, 37, 1))
    for sampling, name in ((0, "444"), (1, "422"), (2, "420")):
        save(f"rgb_{name}.jpg", rgb, quality=85, subsampling=sampling)
    for name, sampling in (("440", "1x2"), ("411", "4x1"), ("arithmetic", "2x2")):  # Pillow cannot write these
        ppm = io.BytesIO()
        rgb.save(ppm, "PPM")
        options = ["-sample", sampling, "-quality", "85"] + (["-arithmetic"] if name == "arithmetic" else [])
        files[f"rgb_{name}.jpg"] = subprocess.run(
            ["cjpeg", *options], input=ppm.getvalue(), stdout=subprocess.PIPE, check=True
        ).stdout
    save("progressive_420.jpg", rgb, quality=80, progressive=True)
    save("restart_420.jpg", rgb, quality=80, restart_marker_blocks=3)
    save("rgb_transform_0.jpg", rgb, quality=85, keep_rgb=True)
    save("one_pixel.jpg", Image.fromarray(make_image(1, 1, 2)))
    save("grey.jpg", rgb.convert("L"), quality=85)
    save("cmyk.jpg", rgb.convert("CMYK"), quality=85)
    save("grey_progressive.jpg", rgb.convert("L"), quality=85, progressive=True)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"exif_{orientation}.jpg", rgb.crop((0, 0, 29, 18)), quality=85, exif=exif)
    save("rgb.png", rgb)
    save("rgba.png", Image.merge("RGBA", (*rgb.split(), rgb.convert("L"))))
    save("grey.png", rgb.convert("L"))
    save("grey_alpha.png", Image.merge("LA", (rgb.convert("L"), rgb.getchannel(0))))
    save("one_bit.png", rgb.convert("1"))
    save("palette.png", rgb.quantize(31))
    save("palette_transparent.png", rgb.quantize(13), transparency=3)
    save("rgb_transparent.png", rgb, transparency=tuple(int(v) for v in np.asarray(rgb)[0, 0]))
    exif = Image.Exif()
    exif[0x0112] = 6
    save("exif_6.png", rgb.crop((0, 0, 20, 11)), exif=exif)

    deep = make_image(19, 14, 3).astype(np.uint16) * 257 - 100 * (make_image(19, 14, 4) > 99)
    files["rgb_16.png"] = png_chunks(19, 14, 16, 2, [r.astype(">u2").tobytes() for r in deep.reshape(14, -1)])
    files["grey_16.png"] = png_chunks(19, 14, 16, 0, [r.astype(">u2").tobytes() for r in deep[:, :, 0]])
    files["interlaced_rgb.png"] = png_chunks(53, 37, 8, 2, passes(np.asarray(rgb)), interlaced=True)
    files["interlaced_rgb_16.png"] = png_chunks(19, 14, 16, 2, passes(deep.astype(">u2")), interlaced=True)
    files["interlaced_grey.png"] = png_chunks(3, 2, 8, 0, passes(make_image(3, 2, 6)[:, :, 0]), interlaced=True)
    rgba_odd = np.dstack([make_image(11, 13, 7), make_image(11, 13, 8)[:, :, 0]])
    files["interlaced_rgba.png"] = png_chunks(11, 13, 8, 6, passes(rgba_odd), interlaced=True)
    palette = make_image(4, 4, 9).tobytes()
    plte = struct.pack(">I", len(palette)) + b"PLTE" + palette + struct.pack(">I", zlib.crc32(b"PLTE" + palette))
    indices = make_image(9, 10, 10)[:, :, 0] >> 4
    files["interlaced_palette.png"] = png_chunks(9, 10, 8, 3, passes(indices), extra=plte, interlaced=True)
    four = make_image(18, 9, 5)[:, :, 0] >> 4
    files["grey_4.png"] = png_chunks(18, 9, 4, 0, [(r[0::2] << 4 | r[1::2]).tobytes() for r in four])

    rgba = Image.merge("RGBA", (*rgb.split(), rgb.convert("L")))
    save("lossy.webp", rgb, quality=80)
    save("lossless.webp", rgb, lossless=True)
    save("alpha.webp", rgba, quality=70)
    save("exif_6.webp", rgb.crop((0, 0, 20, 11)), quality=90, exif=exif)
    save("rgb_24.bmp", rgb)
    save("rgb_32.bmp", rgba)
    save("grey_8.bmp", rgb.convert("L"))
    save("palette_8.bmp", rgb.quantize(31))
    save("one_bit.bmp", rgb.convert("1"))
    save("rgb_6.ppm", rgb)
    save("grey_5.pgm", rgb.convert("L"))
    save("bits_4.pbm", rgb.convert("1"))
    files["grey_5_16.pgm"] = b"P5\n# sixteen bits\n19 14\n65535\n" + deep[:, :, 0].astype(">u2").tobytes()

    files["rgb_6_16.ppm"] = b"P6\n19 14\n65535\n" + deep.astype(">u2").tobytes()

    with open(os.path.join(HERE, "golden.txt"), "w") as golden:
        for name, data in sorted(files.items()):
            with open(os.path.join(HERE, name), "wb") as out:
                out.write(data)
            image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
            if name in ("grey_16.png", "grey_5_16.pgm"):
                image = Image.fromarray((deep[:, :, 0] >> 8).astype(np.uint8))
            as_rgb = image.convert("RGB")
            hashes = [fnv1a(np.asarray(i).tobytes()) for i in (as_rgb, as_rgb.convert("L"))]
            golden.write(f"{name} {image.width} {image.height} {hashes[0]:016x} {hashes[1]:016x}\n")


if __name__ == "__main__":
    main()
