"""Pictures that come in and go out: decoded under limits, sent as new JPEG files."""

import base64
import binascii
import io
from typing import Any

from nearkin.images.reading import FORMATS, ImageError, Source, read_colour
from nearkin.serve.errors import Refused

PIXELS = 40_000_000  # of an uploaded image: 120 MB while it is decoded
SIDE = 320  # of a picture on the page
_DATA_URL = "base64,"


def decode_upload(text: str, field: str) -> bytes:
    """The bytes of an image in base64, perhaps as a data: URL, whose header is within limits."""
    if text.startswith("data:"):
        text = text.partition(_DATA_URL)[2]
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(
            422, f"{field} is not base64; give the bytes of an image file", field
        ) from None
    _check_header(data, field)
    return data


def _check_header(data: bytes, field: str) -> None:
    """Refuse what is no image, or one that is small in the file and huge in memory."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
    except Image.DecompressionBombError:
        raise Refused(413, f"{field} has more than {PIXELS:,} pixels; shrink it", field) from None
    except Exception:  # decoders raise any exception on damaged files
        kinds = ", ".join(FORMATS)
        raise Refused(422, f"{field} is not an image that can be read ({kinds})", field) from None
    if width * height > PIXELS:
        found = f"{width}×{height} pixels, more than {PIXELS:,}"
        raise Refused(413, f"{field} has {found}; shrink it", field)


def encode_uploads(encoder: Any, uploads: list[bytes], field: str) -> Any:
    """A row of features for each image."""
    rows, failed = encoder.encode(uploads)
    for place, reason in failed.items():
        raise Refused(422, f"{field}[{place}] cannot be used: {reason}", f"{field}[{place}]")
    return rows


def picture(source: Source) -> bytes:
    """A small JPEG file of an image, which holds nothing but pixels of the original."""
    from PIL import Image

    file = io.BytesIO()
    try:
        Image.fromarray(read_colour(source, SIDE)).save(file, "JPEG", quality=82)
    except ImageError as error:
        raise Refused(404, f"the image of this row cannot be read: {error}", "row") from None
    return file.getvalue()
