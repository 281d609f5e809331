"""Any image network in an ONNX file as an encoder."""

import os
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.images.extraction import ImageEncoder
from nearkin.images.folder import sources_of
from nearkin.images.reading import ImageError, Source, read_window
from nearkin.images.store import Failures
from nearkin.io.fingerprint import TextDigest
from nearkin.validation import expect
from nearkin.validation.extras import missing_extra
from nearkin.validation.parameters import Table, check_parameters

Floats = NDArray[np.float32]

LAYOUTS = {"NCHW": (1, 2, 3), "NHWC": (3, 1, 2)}  # places of channel, height, width
MODES = {1: "L", 3: "RGB"}
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


# Parts of the names of outputs
DESCRIPTORS = ("feature", "embed", "descriptor", "pool")
SCORES = ("logit", "prob", "softmax", "class", "score")

_SIDE = expect.whole(1, 65_535)


def _sides_expected(value: Any) -> str | None:
    pair = isinstance(value, tuple | list) and len(value) == 2
    return None if pair and all(_SIDE(side) is None for side in value) else "(height, width)"


def _channels(of: expect.Expectation, expected: str) -> expect.Expectation:
    """A number, or one for each of three channels."""
    three = expect.each(of, expected)
    return lambda v: None if of(v) is None else expected if np.size(v) not in (1, 3) else three(v)


class Signature(NamedTuple):
    """Input and output of a network, from its file and the user's settings."""

    input: str
    output: str
    layout: str
    mode: str
    size: tuple[int, int]
    dtype: type
    batch: int


class OnnxEncoder(ImageEncoder):
    """Features of images by an image network.

    The centre of each image is resized to the network's input; each value v in 0…255 becomes
    ``(v − mean) / scale`` (networks that take bytes get v itself). Size, layout, channels and type
    of the input are read from the file; an error names those that it leaves open.

    Parameters
    ----------
    model : path
        The ONNX file.
    output : str or None
        Name of the output to use; None if there is only one.
    size : int, (int, int) or None
        Side, or height and width, of the input in pixels; None to read it from the file.
    layout : "NCHW", "NHWC" or None
        Order of batch, channel, height and width; None to read it from the file.
    mean, scale : float or sequence of 3 floats
        The default brings values to about −1…1, as for EfficientNet-Lite, MobileNet and
        Inception. Networks from torchvision or timm mostly want
        ``mean=(123.675, 116.28, 103.53), scale=(58.395, 57.12, 57.375)``.
    crop : float
        Share of the largest centred window that is kept: 0.875 is 224 of 256 pixels.
    batch_size : int
        Images per run of the network, if the file leaves it open.

    Attributes
    ----------
    failed_ : list of (path, reason)
        Images that could not be used, after `transform`.

    Examples
    --------
    >>> from nearkin.images import ImageFolder
    >>> folder = ImageFolder("pictures/")  # doctest: +SKIP
    >>> encoder = OnnxEncoder("efficientnet_lite0.onnx", output="features")
    >>> E = encoder.transform(folder, out="embeddings.npy", n_jobs=2)  # doctest: +SKIP
    """

    PARAMETERS: ClassVar[Table] = {
        "model": expect.path,
        "output": expect.optional(expect.text),
        "size": expect.optional(expect.either(_SIDE, _sides_expected)),
        "layout": expect.optional(expect.choice(*LAYOUTS)),
        "mean": _channels(expect.number(-1e6, 1e6), "one number or three, up to 1e6"),
        "scale": _channels(expect.either(expect.number(above=0), expect.number(below=0)),
                           "one number or three, none of them zero"),
        "crop": expect.number(above=0, high=1),
        "batch_size": expect.whole(1),
    }  # fmt: skip

    def __init__(
        self,
        model: str | os.PathLike[str],
        output: str | None = None,
        size: int | tuple[int, int] | None = None,
        layout: str | None = None,
        mean: float | tuple[float, ...] = 127.0,
        scale: float | tuple[float, ...] = 128.0,
        crop: float = 0.875,
        batch_size: int = 16,
    ) -> None:
        self.model = model
        self.output = output
        self.size = size
        self.layout = layout
        self.mean = mean
        self.scale = scale
        self.crop = crop
        self.batch_size = batch_size

    def fit(self, images: Any = None, y: Any = None) -> Self:
        """Nothing to learn; checks the settings against the file."""
        self._signature()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        # For workers, whose working folder may be another.
        return super().__getstate__() | {"model": os.path.abspath(self.model)}

    def chunk_shape(self) -> tuple[int, int]:
        """Images that a worker takes at a time, and the length of a feature vector."""
        net = self._signature()
        blank = np.zeros((net.batch, *net.size, len(net.mode)), dtype=np.uint8)
        images = net.batch * max(1, self.batch_size // net.batch)
        return images, self._run(net, blank).shape[1]

    def encode(self, images: Sequence[Source]) -> tuple[Floats, Failures]:
        """Features of a few images in this process, and why some have none."""
        sources = sources_of(images)
        net = self._signature()
        batches = [
            self._encode_batch(net, sources[start : start + net.batch])
            for start in range(0, len(sources), net.batch)
        ]
        failed = {
            number * net.batch + i: reason
            for number, (_, reasons) in enumerate(batches)
            for i, reason in reasons.items()
        }
        rows = np.concatenate([rows for rows, _ in batches])
        return rows, failed

    def _encode_batch(self, net: Signature, sources: Sequence[Source]) -> tuple[Floats, Failures]:
        # Always a full batch, each image in its place, so that a row does not depend on the others.
        pixels = np.zeros((net.batch, *net.size, len(net.mode)), dtype=np.uint8)
        failed = {}
        for i, source in enumerate(sources):
            try:
                window = read_window(source, net.size, self.crop, net.mode)
                pixels[i] = window.reshape(pixels.shape[1:])
            except ImageError as error:
                failed[i] = str(error)
        rows = self._run(net, pixels)[: len(sources)]
        for i in np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist():
            failed.setdefault(i, "the network's output is not finite")
        rows[list(failed)] = 0
        return rows, failed

    def _run(self, net: Signature, pixels: NDArray[np.uint8]) -> Floats:
        values: NDArray[Any] = pixels
        if net.dtype is not np.uint8:
            mean, scale = (np.asarray(v, dtype=np.float32) for v in (self.mean, self.scale))
            values = ((pixels - mean) / scale).astype(net.dtype)
        if net.layout == "NCHW":
            values = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
        (result,) = _session(*self._key()).run([net.output], {net.input: values})
        if np.ndim(result) == 0 or len(result) != len(pixels):
            raise ValueError(
                f"output={net.output!r} has shape {np.shape(result)} for {len(pixels)} images: "
                "expected one row per image"
            )
        return np.asarray(result, dtype=np.float32).reshape(len(pixels), -1)

    def _key(self) -> tuple[str, int]:
        path = Path(self.model)
        if not path.is_file():
            found = "it is not a regular file" if path.exists() else "there is no such file"
            raise FileNotFoundError(f"model={str(self.model)!r} must be an ONNX file; {found}")
        # Whoever replaces a file can set its time, but not that of the change.
        status = path.stat()
        return str(path), status.st_ctime_ns ^ status.st_mtime_ns

    def _signature(self) -> Signature:
        check_parameters(self)
        session = _session(*self._key())
        inputs = session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in TYPES or len(inputs[0].shape) != 4:
            found = "; ".join(f"{node.name} {node.type} {node.shape}" for node in inputs)
            raise ValueError(
                f"model={str(self.model)!r} takes {found}: expected one batch of images, "
                "N×C×H×W or N×H×W×C, of float, float16 or uint8"
            )
        shape = inputs[0].shape
        layout = _layout(shape, self.layout)
        channel, height, width = (shape[place] for place in LAYOUTS[layout])
        fixed = isinstance(shape[0], int) and shape[0] > 0
        return Signature(
            input=inputs[0].name,
            output=_output(session.get_outputs(), self.output),
            layout=layout,
            mode=MODES[channel if isinstance(channel, int) else 3],
            size=_size((height, width), self.size),
            dtype=TYPES[inputs[0].type],
            batch=shape[0] if fixed else self.batch_size,
        )

    def inputs(self) -> dict[str, Any]:
        """What the features depend on beside the images."""
        model = TextDigest(sha256(Path(self.model).read_bytes()).hexdigest())
        return {"encoder": "OnnxEncoder", **self.get_params(), "model": model}


@lru_cache(maxsize=4)
def _session(path: str, modified: int) -> Any:
    """The network, loaded once per process and again when its file has changed."""
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra("OnnxEncoder", "onnxruntime", "onnx") from error
    options = onnxruntime.SessionOptions()
    # One thread: the processes are the parallelism.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common public class
        raise ValueError(f"model={path!r} cannot be loaded as an ONNX network: {error}") from error


def _output(nodes: Sequence[Any], wanted: str | None) -> str:
    names = [node.name for node in nodes]
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is not None and wanted in names:
        return wanted
    shown = ", ".join(f"{node.name} ({_shape_text(node.shape)})" for node in nodes)
    best = _descriptor(nodes)
    raise ValueError(
        f"output={wanted!r} must name one of the network's outputs, {shown}; "
        f"output={best!r} (--output {best}) looks most like a descriptor"
    )


def _shape_text(shape: Sequence[Any]) -> str:
    return "×".join(str(side) if isinstance(side, int) else "N" for side in shape) or "a number"


def _descriptor(nodes: Sequence[Any]) -> str:
    """The output to suggest: named like features, not like class scores, and a vector an image."""

    def merit(node: Any) -> tuple[bool, bool, bool, int]:
        name = node.name.lower()
        width = node.shape[-1] if node.shape and isinstance(node.shape[-1], int) else 0
        named = any(word in name for word in DESCRIPTORS)
        return named, not any(word in name for word in SCORES), len(node.shape) == 2, width

    return str(max(nodes, key=merit).name)


def _layout(shape: Sequence[int | str | None], wanted: str | None) -> str:
    fitting = [name for name, places in LAYOUTS.items() if shape[places[0]] in MODES]
    if wanted is None:
        if len(fitting) != 1:
            raise ValueError(
                f"the input has shape {shape} in the file, which does not tell the layout: "
                "pass layout='NCHW' or layout='NHWC'"
            )
        return fitting[0]
    channel = shape[LAYOUTS[wanted][0]]
    if isinstance(channel, int) and channel not in MODES:
        raise ValueError(
            f"layout={wanted!r}: the file's shape {shape} then has {channel} channels; "
            "expected 3 (colour) or 1 (grey)"
        )
    return wanted


def _size(
    said: tuple[int | str | None, ...], wanted: int | tuple[int, int] | None
) -> tuple[int, int]:
    asked = _sides(wanted)
    sides = []
    for of_file, of_user in zip(said, asked):
        side = of_file if isinstance(of_file, int) and of_file > 0 else of_user
        if side is None:
            raise ValueError(
                "the file leaves the size of its input open: pass size, for example size=224"
            )
        if of_user not in (None, side):
            raise ValueError(f"size={wanted!r}: the file says {said[0]}×{said[1]}")
        sides.append(int(side))
    return sides[0], sides[1]


def _sides(wanted: Any) -> tuple[int | None, ...]:
    """Height and width as asked for."""
    if wanted is None:
        return None, None
    sides = tuple(wanted) if isinstance(wanted, tuple | list) else (wanted, wanted)
    return sides
