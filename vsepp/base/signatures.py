"""What a file is, by its first bytes: for messages about a file that is another one than its name says."""

from __future__ import annotations

import re

HEAD = 1024
"""First bytes of a file that are enough for `kind_of`."""
EMPTY = "empty (0 bytes)"
CAMERA_RAW = "a raw file of a camera"
ZIP, NPY, TORCH = "a zip archive", "an array of NumPy (.npy)", "a file of torch.save"
JPEG, PNG, GIF, BMP, TIFF, WEBP, HEIC, AVIF = "JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP", "HEIC", "AVIF"

NEVER_MEANT = (EMPTY, "an HTML page", "XML", "a PDF", "a Git LFS pointer", "a git-annex pointer")
"""What no file of vsepp's is: a download that went wrong, or one that is still to be made."""

_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs.github.com/spec/", "a Git LFS pointer"),
    (b"/annex/objects/", "a git-annex pointer"),
    (b"%PDF-", "a PDF"),
    (b"%!PS", "PostScript"),
    (b"\xc5\xd0\xd3\xc6", "PostScript"),
    (b"\xff\xd8\xff", JPEG),
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"GIF8", GIF),
    (b"II*\0", TIFF),
    (b"MM\0*", TIFF),
    (b"II+\0", TIFF),
    (b"MM\0+", TIFF),
    (b"8BPS", "a Photoshop document"),
    (b"gimp xcf", "a GIMP document"),
    (b"AT&TFORM", "DjVu"),
    (b"{\\rtf", "RTF"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Microsoft Office"),
    (b"\0\0\1\0", "an icon (ICO)"),
    (b"icns\0", "an icon (ICNS)"),
    (b"FUJIFILMCCD-RAW", CAMERA_RAW),
    (b"IIRO", CAMERA_RAW),
    (b"IIU\0", CAMERA_RAW),
    (b"DDS |\0", "a DDS texture"),
    (b"qoif\0", "QOI"),
    (b"v/1\1", "OpenEXR"),
    (b"\n\5\1", "PCX"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", TORCH),
    (b"\x93NUMPY", NPY),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"PK\x05\x06", ZIP),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x04\x22\x4d\x18", "LZ4"),
    (b"PAR1", "Parquet"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"MATLAB 5.0 MAT-file", "a MAT-file"),
    (b"\0\x05\x16\x07", "metadata of macOS"),
    (b"bplist0", "a property list of Apple"),
    (b"\x1a\x45\xdf\xa3", "a video"),
    (b"FLV\1", "a video"),
    (b"\0\0\1\xba", "a video"),
    (b"OggS\0", "an Ogg file (sound or video)"),
    (b"ID3\3", "sound (MP3)"),
    (b"ID3\4", "sound (MP3)"),
    (b"\x7fELF", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"MZ\x90\0", "a program"),
    (b"\xff\xfe\0\0", "UTF-32 text"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_INSIDE: tuple[tuple[int, bytes, str], ...] = (
    (4, b"moov", "a video"),
    (4, b"mdat", "a video"),
    (4, b"wide", "a video"),
    (4, b"\0\0\0\0{", "safetensors"),  # the length of a JSON object, and its beginning
    (257, b"ustar", "a tar archive"),
)
"""Place, bytes that stand there, kind."""
_BRANDS = {
    b"avif": AVIF,
    b"avis": AVIF,
    b"crx ": CAMERA_RAW,
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), HEIC),
}
_HTML = ("<!doctype html", "<html", "<head", "<body", "<title", "<script", "<meta")
_JSON = re.compile(r"\{\s*[\"}]|\[\s*[\"{\[\]\d-]")
_TORCH = re.compile(rb"[^\0]{0,200}/?(data\.pkl|\.format_version|\.data/serialization_id|byteorder)")

_PICKLE = re.compile(rb"\x80[\2-\5]|\((dp|lp)\d+\n|c(numpy|copy_reg|collections|__builtin__)[\w.]*\n")
"""Of protocols 2 to 5, and of the first, which is text."""


def kind_of(data: bytes) -> str:
    """What a file is by its first bytes, as messages say it: `an HTML page`, `HEIC`, `a Git LFS pointer`.

    Parameters
    ----------
    data
        Its first `HEAD` bytes, or more; all of them where it has fewer.

    Returns
    -------
    str
        Empty if it is unknown.
    """
    if not data:
        return EMPTY
    head = data[:HEAD]
    if head[:2] == b"II" and head[8:10] == b"CR":
        return CAMERA_RAW
    for beginning, kind in _BEGINNINGS:
        if head.startswith(beginning):
            return kind
    if head[:4] == b"RIFF":
        return WEBP if head[8:12] == b"WEBP" else "a RIFF file (sound or video)"
    if head[4:8] == b"ftyp":
        brands = [head[8:12], *(head[at : at + 4] for at in range(16, min(head[3], 64), 4))]
        # The general brand of a HEIF file stands before the codec's.
        known = [_BRANDS[brand] for brand in brands if brand in _BRANDS]
        return AVIF if AVIF in known else known[0] if known else "a video"
    if head[:4] == b"PK\x03\x04":
        return TORCH if _TORCH.match(head[30:]) else ZIP
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return BMP
    for place, mark, kind in _INSIDE:
        if head.startswith(mark, place):
            return kind
    if _PICKLE.match(head):
        return "a pickle"
    if not head.strip(b"\0"):
        return "zeros alone (a copy that did not end)"
    return _kind_of_text(head) or ("Netpbm (PPM)" if head[:3] in (b"P4\n", b"P5\n", b"P6\n") else "")


def _kind_of_text(head: bytes) -> str:
    text = head.decode("utf-8-sig", "replace")
    if any(ord(letter) < 32 and letter not in "\t\n\r\f" for letter in text):
        return ""
    start = text.lstrip().lower()
    if start.startswith(_HTML) or (start.startswith("<") and "<html" in start):
        return "an HTML page"
    if start.startswith("<svg") or (start.startswith("<") and "<svg" in start):
        return "SVG"
    if start.startswith("<?xml"):
        return "XML"
    if "\ufffd" in text[:-3]:  # the head may end inside a letter
        return ""
    return "JSON" if _JSON.match(start) else "text"
